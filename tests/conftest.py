"""Shared set-up: hypothesis without deadlines, as machines are noisy, and with fixed examples."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "polyceptron",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("polyceptron")
