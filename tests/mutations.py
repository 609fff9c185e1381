"""Do the tests see a wrong formula? One mutation at a time, in a copy of the source.

    python tests/mutations.py            all of them, about ten minutes
    python tests/mutations.py prior      those whose file or name contains a word

Not collected by pytest. To try a formula of your own, add a line: file, text, its mutation, test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent


class Mutation(NamedTuple):
    """Replace `old` by `new` in src/polyceptron/`file`; `test` must then fail."""

    name: str
    file: str
    old: str
    new: str
    test: str


ERRORS = "tests/references/test_bayes_references.py::test_errors"
THRESHOLDS = "tests/references/test_bayes_references.py::test_transitions"
ENTROPY = "tests/identities/test_bayes_identities.py"
WEIGHTS = "tests/unit/theory/test_weights_side.py"
SPECTRA = "tests/unit/theory/test_spectra.py"
ERM = "tests/references/test_erm_theory_reference.py::test_three_classes"
LIKELIHOOD = "tests/unit/fit/test_maximum_likelihood.py"
CHOICE = "tests/unit/fit/test_choose_ridge.py"
CORRELATED = "tests/unit/message_passing/test_correlated_amp.py"
MUTATIONS = [
    Mutation(
        "leverage of a left-out sample",
        "fit/leave_one_out.py",
        "np.eye(H.shape[1]) - A @ part_of_curvature",
        "np.eye(H.shape[1])",
        f"{CHOICE}::test_leave_one_out_is_that_of_refits",
    ),
    Mutation(
        "weights of samples in the curvature",
        "fit/solvers/softmax_objective.py",
        "            v *= self.share[..., None, :]\n",
        "            pass\n",
        f"{CHOICE}::test_weights_of_samples_are_repetitions",
    ),
    Mutation(
        "cavity variance with correlated features",
        "message_passing/correlated.py",
        "cavity_variance = s / np.maximum(1 - s * D, LEAST_VARIANCE_RATIO)",
        "cavity_variance = s",
        f"{CORRELATED}::test_cavity_fields_are_those_of_runs_without_the_sample",
    ),
    Mutation(
        "features: slopes of the fit without each",
        "fit/feature_tests.py",
        "return np.asarray(step - np.einsum",
        "return np.asarray(step + 0 * np.einsum",
        "tests/unit/fit/test_feature_tests.py::"
        "test_the_statistic_is_that_of_a_refit_without_the_feature",
    ),
    Mutation(
        "a rare column's ridge without the sample",
        "fit/leave_one_out.py",
        "A[rare] += (lighter[rare] * seen)",
        "A[rare] += 0 * (lighter[rare] * seen)",
        f"{CHOICE}::"
        "test_leave_one_out_knows_that_a_column_of_few_ones_is_scaled_otherwise_without_one",
    ),
    Mutation(
        "no mistake is no error of 0",
        "questions/forecast.py",
        "n_mistaken = half_width**2 / 4 * last.size / n_samples",
        "n_mistaken = 0.0",
        "tests/unit/report/test_data_report.py::test_a_curve_without_errors_has_a_forecast",
    ),
    Mutation(
        "floor of a forecast",
        "questions/forecast.py",
        "np.maximum(a * law.shape(n, p, q) + c, 0.0)",
        "np.maximum(a * law.shape(n, p, q), 0.0)",
        "tests/unit/report/test_data_report.py::test_a_power_law_is_found_and_its_band_holds_it",
    ),
    Mutation(
        "information I: a factor 2",
        "theory/bayes/channel_table.py",
        "-(e + at.rate(x) * slope(x)) / (k - 1)",
        "-(e + 2 * at.rate(x) * slope(x)) / (k - 1)",
        f"{ENTROPY}::test_channel_at_zero_overlap_is_known",
    ),
    Mutation(
        "channel entropy: pairs of competitors, a sign",
        "sides/fields/information.py",
        "told_by_two - 2 * told_by_one",
        "told_by_two + 2 * told_by_one",
        "tests/unit/theory/test_entropy_table.py::test_a_part_made_again_is_the_table",
    ),
    Mutation(
        "solution curve: the width dropped from I",
        "theory/bayes/channel_table.py",
        "return information / unit,",
        "return information,",
        ERRORS,
    ),
    Mutation(
        "free entropy Φ: a factor 1/2",
        "theory/bayes/solution_curve.py",
        "0.5 * self.teacher.reduced_rank * q_hat * v + psi",
        "self.teacher.reduced_rank * q_hat * v + psi",
        f"{ENTROPY}::test_entropy_falls_along_the_branch_as_the_channel_says",
    ),
    Mutation(
        "prior overlap F: the mean's square dropped",
        "sides/weights/point_rows.py",
        "return moments[1] - squared_mean",
        "return moments[1] - 0.5 * squared_mean",
        THRESHOLDS,
    ),
    Mutation(
        "entropy of a teacher's row: merged rows forgotten",
        "problem/priors/prior.py",
        "logsumexp(log_p[inverse.ravel() == i])",
        "np.max(log_p[inverse.ravel() == i])",
        f"{WEIGHTS}::test_entropies_of_rows",
    ),
    Mutation(
        "flips: the known part of the entropy dropped",
        "sides/fields/information.py",
        "xlogy(Z, Z) - known",
        "xlogy(Z, Z)",
        f"{ENTROPY}::test_channel_at_zero_overlap_is_known",
    ),
    Mutation(
        "Gaussian noise: Δ forgotten in the unit of I",
        "theory/bayes/channel_table.py",
        "unit = scale * (1 + self.delta)",
        "unit = scale",
        ERRORS,
    ),
    Mutation(
        "common shift on a lattice: the cross term",
        "sides/weights/few_classes.py",
        "second = square + square.T - 2 * (G @ (G * here).T)",
        "second = square + square.T - (G @ (G * here).T)",
        f"{WEIGHTS}::test_lattice_reproduces_the_sum_over_points",
    ),
    Mutation(
        "common shift by gaps: the mean's square dropped",
        "sides/weights/few_classes.py",
        "second - squared / np.maximum(P, 1e-290)",
        "second - 0.5 * squared / np.maximum(P, 1e-290)",
        f"{WEIGHTS}::test_two_rules_agree_where_both_work",
    ),
    Mutation(
        "sampled uncertainty: ten times too small",
        "numerics/estimate.py",
        "student_quantile(n) * spread",
        "0.3 * spread",
        "tests/agreement/test_sampled_theory_is_honest.py::test_stated_uncertainty_covers_a_long_run",
    ),
    Mutation(
        "choice of branch: free entropies taken as exact",
        "theory/bayes/fixed_points.py",
        "<= best.free_entropy_uncertainty + c.free_entropy_uncertainty",
        "<= 0",
        "tests/agreement/test_sampled_theory_is_honest.py::"
        "test_close_to_the_transition_a_coarse_curve_does_not_choose",
    ),
    Mutation(
        "±1 weights: the spread of the curvature, at infinitely many classes",
        "sides/weights/sign_table.py",
        "0.5 - 2 * c1_slope / m",
        "0.5 + 2 * c1_slope / m",
        "tests/unit/theory/test_sign_table.py::test_samples_of_many_classes_go_to_the_limit",
    ),
    Mutation(
        "solution curve: one α for all roots",
        "theory/bayes/solution_curve.py",
        "np.clip(found, TINY, 1 / TINY) / alpha[which]",
        "np.clip(found, TINY, 1 / TINY) / alpha[0]",
        "tests/identities/test_rows_alone.py::test_all_rows_at_once_are_the_rows_alone",
    ),
    Mutation(
        "generalisation error: exponent k − 1",
        "sides/generalisation.py",
        "np.expm1((k - 1) * np.log1p(-lost))",
        "np.expm1(k * np.log1p(-lost))",
        "tests/unit/theory/test_generalisation.py::test_against_simulation",
    ),
    Mutation(
        "ERM equations: the balance of the ridge",
        "theory/erm/equations.py",
        "right = law.residual + slope * a.D_plus",
        "right = law.residual + 0 * slope",
        ERM,
    ),
    Mutation(
        "ERM equations: the ridge dropped from 1/V",
        "problem/penalties/ridge.py",
        "x = 1 / (ridge + V_hat)",
        "x = 1 / V_hat",
        ERM,
    ),
    Mutation(
        "correlated features: the ridge dropped from the response",
        "problem/penalties/ridge.py",
        "every = s / (ridge + V * s)",
        "every = s / (V * s)",
        "tests/unit/theory/test_ways.py::test_ridge_on_a_spectrum_against_its_three_sums",
    ),
    Mutation(
        "square loss q: a factor 2",
        "theory/erm/square_closed_form.py",
        "1 / n_classes - 2 * m * c + m**2",
        "1 / n_classes - m * c + m**2",
        "tests/unit/theory/test_erm_theory.py::test_square_equations_have_the_closed_form_as_root",
    ),
    Mutation(
        "fields side, M: a sign of the other classes",
        "sides/fields/integrand.py",
        "label.slopes.sum(0) - _dot(label.slopes, others)",
        "label.slopes.sum(0) + _dot(label.slopes, others)",
        "tests/unit/theory/test_fields.py::test_averages_against_drawn_samples",
    ),
    Mutation(
        "many classes, sums: pairs of other classes",
        "sides/fields/sums.py",
        "self.one_sum * v.a) + self._pairs_of_a()",
        "self.one_sum * v.a)",
        "tests/unit/theory/test_many_classes.py",
    ),
    Mutation(
        "density of ordered gaps: the common part",
        "sides/fields/integrand.py",
        "total * total / k",
        "total * total / (k + 1)",
        "tests/unit/theory/test_fields.py::test_density_of_ordered_gaps_is_normalised",
    ),
    Mutation(
        "proximal coordinates of cross-entropy: their volume",
        "problem/losses/proximal_coordinates.py",
        "(1 + V * (1 - lost) * (lost + p2))",
        "(1 + V * (1 - lost) * lost)",
        "tests/unit/theory/test_fields.py::test_own_coordinates_agree_with_generic_ones",
    ),
    Mutation(
        "margins of unequal classes: the other ray",
        "theory/matrix_margins.py",
        "np.stack([larger, least], 1)",
        "np.stack([least, larger], 1)",
        "tests/unit/theory/test_population_margins.py",
    ),
    Mutation(
        "two students: the rest of each",
        "theory/pair_averages.py",
        "spectrum.smoothed(remaining[group])",
        "spectrum.smoothed(2 * remaining[group])",
        "tests/unit/theory/test_resampling.py::test_the_pair_average_is_that_of_drawn_fields",
    ),
    Mutation(
        "two students of many classes: fields of the second",
        "theory/pair_averages.py",
        "second = (s[:, own] - d[:, own])",
        "second = (s[:, own] + d[:, own])",
        "tests/unit/theory/test_resampling.py::test_the_pair_average_is_that_of_drawn_fields",
    ),
    Mutation(
        "training error: the gap of a mistake",
        "problem/losses/proximal_coordinates.py",
        "return (self.epsilon - 1) * V",
        "return 2 * (self.epsilon - 1) * V",
        "tests/agreement/test_erm_theory_simulation.py::test_fitted_classifiers_follow_the_theory",
    ),
    Mutation(
        "weights side: the spread of the response",
        "problem/penalties/ridge.py",
        "hats.m**2 * float(sums.spread[0])",
        "0 * float(sums.spread[0])",
        "tests/unit/theory/test_ways.py::test_ridge_on_a_spectrum_against_its_three_sums",
    ),
    Mutation(
        "correlated features: the shrinkage of the signal",
        "problem/penalties/ridge.py",
        "ridge * (h @ signal)",
        "ridge * (h @ fraction)",
        "tests/unit/theory/test_ways.py::test_correlated_features_end_where_the_plain_loop_does",
    ),
    Mutation(
        "ERM equations, correlated features: the spread of m over levels",
        "theory/erm/equations.py",
        "+ sums.spread * a.M**2",
        "",
        SPECTRA,
    ),
    Mutation(
        "softmax labels: what is hidden forgotten in their signal",
        "problem/channels/softmax.py",
        "_signal(self.slope * spread, n_classes) / spread",
        "_signal(self.slope * spread, n_classes)",
        "tests/registry/test_registry_members.py",
    ),
    Mutation(
        "correlated features: the square loss's bias",
        "theory/erm/square_closed_form.py",
        "alpha * c**2 * spread",
        "c**2 * spread",
        f"{SPECTRA}::test_square_loss_against_random_matrix_theory",
    ),
    Mutation(
        "correlated features: the ridge that is left",
        "theory/erm/square_closed_form.py",
        "return ridge / kappa + float(fraction @ (s / (kappa + s))) - alpha",
        "return ridge / kappa + float(fraction @ (s / (kappa + s)) ** 2) - alpha",
        f"{SPECTRA}::test_square_loss_against_random_matrix_theory",
    ),
    Mutation(
        "Bayes, correlated features: sθ or s",
        "sides/weights/side.py",
        "local_gauss(features.power, features.fraction)",
        "local_gauss(features.eigenvalues, features.fraction)",
        f"{SPECTRA}::test_bayes_depends_on_the_products_alone_and_a_ridge_does_not",
    ),
    Mutation(
        "separability: directions without variance",
        "theory/separability.py",
        "rank = teacher.features.rank",
        "rank = 1.0",
        f"{SPECTRA}::test_separability_does_not_know_the_spectrum",
    ),
    Mutation(
        "a penalty over a spectrum: the signal's root",
        "problem/penalties/base.py",
        "Conjugates(hats.m * s * signal_scale,",
        "Conjugates(hats.m * s * theta,",
        f"{SPECTRA}::test_a_penalty_of_one_level_is_carried_over_a_spectrum",
    ),
    Mutation(
        "whitening: the precision's scale",
        "message_passing/run.py",
        "precision * self.scale**2)\n        return RowEstimate",
        "precision * self.scale)\n        return RowEstimate",
        "tests/agreement/test_spectra_simulated.py",
    ),
    Mutation(
        "hidden share as noise",
        "problem/channels/channel.py",
        "(self.variance + hidden) / (1 - hidden)",
        "self.variance + hidden",
        "tests/unit/problem/test_features.py::test_hidden_share_is_noise_of_the_fields",
    ),
    Mutation(
        "signal from data: the bias of estimation",
        "problem/spectrum.py",
        "_pooled(raw - noise)",
        "_pooled(raw)",
        "tests/unit/problem/test_features.py",
    ),
    Mutation(
        "best ridge of the square loss: −1",
        "theory/erm/square_closed_form.py",
        "1 / (n_classes * signal**2) - 1",
        "1 / (n_classes * signal**2)",
        "tests/unit/theory/test_erm_theory.py::test_best_square_ridge_is_a_minimum_at_every_alpha",
    ),
    Mutation(
        "argmax score: sign of the competitors",
        "numerics/orthant.py",
        "score[others] = -slopes",
        "score[others] = slopes",
        "tests/unit/numerics/test_orthant_identities.py::test_score_and_curvature_are_derivatives",
    ),
    Mutation(
        "argmax curvature: the cross term once",
        "numerics/orthant.py",
        "bends.sum(0) + 2 * cross",
        "bends.sum(0) + cross",
        "tests/unit/numerics/test_orthant_identities.py::test_score_and_curvature_are_derivatives",
    ),
    Mutation(
        "AMP: the Onsager term dropped",
        "message_passing/steps.py",
        "omega = fields - self.V * self.scores",
        "omega = fields",
        "tests/agreement/test_amp_state_evolution.py::test_runs_follow_state_evolution",
    ),
    Mutation(
        "AMP: Λ per direction",
        "message_passing/steps.py",
        "total_curvature / (self.design.dimension * directions)",
        "total_curvature / self.design.dimension",
        "tests/agreement/test_amp_state_evolution.py::test_runs_follow_state_evolution",
    ),
    Mutation(
        "cross-entropy curvature: a factor 2",
        "problem/losses/softmax_prox.py",
        "(2 * top * rest + pairs)",
        "(top * rest + pairs)",
        "tests/unit/problem/test_losses.py::test_trace_is_the_derivative_of_f",
    ),
    Mutation(
        "hinge: the curvature of a label that has all its pull",
        "problem/losses/hinge.py",
        "np.where(most, n_full - 1, n)",
        "np.where(most, n_full, n)",
        "tests/registry/test_registry_members.py::test_loss",
    ),
    Mutation(
        "two students: the weight of a sample in the pull",
        "theory/resampling_equal_classes.py",
        'power = {"Q": 2,',
        'power = {"Q": 1,',
        "tests/unit/theory/test_resampling.py::test_the_square_loss_solves_its_two_equations",
    ),
    Mutation(
        "one-vs-rest: the common field in the curvature by parts",
        "theory/one_vs_rest_equations.py",
        "(k - 1) * math.sqrt(law.q) + root_p",
        "(k - 1) * math.sqrt(law.q) + 2 * root_p",
        "tests/unit/theory/test_class_rules.py::test_the_curvature_of_one_vs_rest_comes_by_parts_too",
    ),
    Mutation(
        "hard margin: one active constraint too few",
        "problem/losses/hard_margin.py",
        "np.cumsum(ranked, axis=1) / np.arange(2, s.shape[1] + 2)",
        "np.cumsum(ranked, axis=1) / np.arange(1, s.shape[1] + 1)",
        "tests/unit/problem/test_losses.py::test_max_margin_projects",
    ),
    Mutation(
        "overlaps: k directions instead of k − 1",
        "fit/overlaps.py",
        "size = d * (k - 1)",
        "size = d * k",
        "tests/unit/fit/test_overlaps.py",
    ),
    Mutation(
        "errors of a softmax teacher: a class too many",
        "numerics/gumbel/error.py",
        "np.clip(B, 0.0, 1.0) ** (k - 1)",
        "np.clip(B, 0.0, 1.0) ** k",
        "tests/unit/numerics/test_softmax_error.py",
    ),
    Mutation(
        "maximum likelihood: the mean of the softmax left in its curvature",
        "fit/solvers/softmax_objective.py",
        'v -= np.einsum("lhn,lhn->ln", self.weights, v)[:, None]',
        'v -= 0.0 * np.einsum("lhn,lhn->ln", self.weights, v)[:, None]',
        f"{LIKELIHOOD}::test_the_curvature_is_that_of_the_loss",
    ),
    Mutation(
        "maximum likelihood: the ridge taken for none",
        "fit/separation.py",
        "self.gradient_norm = float(np.linalg.norm(gradient))",
        "self.gradient_norm = float(minimum.gradient_norm[0])",
        f"{LIKELIHOOD}::test_the_minimiser_and_its_bound",
    ),
    Mutation(
        "separability: the teacher's share left out of the norm",
        "theory/separability.py",
        "order = ScalarOrder(tau=t, q=1 + t * t, V=1.0)",
        "order = ScalarOrder(tau=t, q=1.0, V=1.0)",
        "tests/references/test_noise_references.py::test_separability_of_two_classes",
    ),
    Mutation(
        "fresh samples: the Brier score without the label's own square",
        "students/measuring.py",
        "1 + scores[1] / n_samples",
        "scores[1] / n_samples",
        "tests/unit/lab/test_noise.py::test_scores_are_measured_on_fresh_samples",
    ),
    Mutation(
        "what is true of a fresh input: the residual variance",
        "sides/fresh_scores.py",
        "channel.label_law(gaps, law.residual).z",
        "channel.label_law(gaps, 0.5 * law.residual).z",
        "tests/unit/theory/test_calibration.py::test_scores_against_drawn_fields",
    ),
    Mutation(
        "points inside an orthant: what is left of each normal",
        "numerics/orthant_nodes.py",
        "        weight *= left\n",
        "        weight *= left**0.9\n",
        "tests/unit/theory/test_population_scores.py::test_random_points_inside_orthants_agree_with_another_library",
    ),
    Mutation(
        "labels of a teacher given unequal fields",
        "sides/fields_law.py",
        "remaining = self.teacher.covariance - M.T @ slope",
        "remaining = self.teacher.covariance - 0.9 * M.T @ slope",
        "tests/unit/theory/test_population_scores.py::test_alike_classes_return_the_scalar_error",
    ),
    Mutation(
        "separability: variance along the means",
        "theory/separability_unequal.py",
        "spread = 1 + a @ G @ a",
        "spread = 1 + 0 * (a @ G @ a)",
        "tests/unit/theory/test_population_separability.py::test_matrices_agree_with_scalars_and_with_closed_forms",
    ),
    Mutation(
        "separability: the metric of the saddle",
        "theory/separability_unequal.py",
        "tilt = alpha * pull",
        "tilt = 0.8 * alpha * pull",
        "tests/unit/theory/test_population_separability.py::test_matrices_agree_with_scalars_and_with_closed_forms",
    ),
    Mutation(
        "weights side of matrices: noise of the samples",
        "sides/matrix/weights.py",
        "noise = f * np.einsum",
        "noise = 0.98 * f * np.einsum",
        "tests/unit/theory/test_populations.py::test_two_clusters_reference",
    ),
    Mutation(
        "fields side of matrices: volume of the proximal points",
        "sides/matrix/graph.py",
        "    J = pairs.du_dt + law.V * pairs.minus_df_dt\n",
        "    J = pairs.du_dt + 0.99 * law.V * pairs.minus_df_dt\n",
        "tests/unit/theory/test_populations.py::test_two_clusters_reference",
    ),
    Mutation(
        "one-vs-rest: what the students have in common",
        "theory/one_vs_rest_equations.py",
        "                Z * pulls.total**2 / k,\n",
        "            Z * total**2,\n",
        "tests/unit/theory/test_class_rules.py::test_what_binary_students_have_in_common_is_that_of_fits",
    ),
    Mutation(
        "shrinkage of class means",
        "theory/bayes/population_rule.py",
        "np.linalg.solve(prior + noise, prior)",
        "np.linalg.solve(prior + 2 * noise, prior)",
        "tests/unit/theory/test_population_floor.py::test_a_balanced_mixture_is_learnt_by_its_class_means",
    ),
    Mutation(
        "intercepts of the Bayes rule",
        "theory/bayes/population_rule.py",
        "np.log(shares) - np.diag(K) / 2",
        "np.log(shares) - np.diag(K)",
        "tests/unit/theory/test_population_floor.py::test_shrunken_class_means_reach_the_bayes_row",
    ),
    Mutation(
        "square loss on a mixture: what means add to Q",
        "sides/matrix/linear_loss.py",
        "of_means = m_hat.T @ state",
        "of_means = 0 * m_hat.T @ state",
        "tests/unit/report/test_twins.py::test_least_squares_without_a_ridge_has_a_fixed_point",
    ),
    Mutation(
        "square loss on a mixture: the answer of V",
        "sides/matrix/linear_loss.py",
        "(samples * (chance @ by_copies**2))",
        "(samples * (chance @ by_copies))",
        "tests/unit/report/test_twins.py::test_least_squares_without_a_ridge_has_a_fixed_point",
    ),
]


def main() -> int:
    """Run them; exit code 1 if a mutation survives or a test fails without one."""
    words = sys.argv[1:]
    chosen = [m for m in MUTATIONS if not words or any(w in m.file + m.name for w in words)]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        clean = {test: passes(test, copy) for test in dict.fromkeys(m.test for m in chosen)}
        for m in chosen:
            begin = time.perf_counter()
            path = copy / "polyceptron" / m.file
            text = path.read_text(encoding="utf-8")
            if text.count(m.old) != 1:
                verdict = f"the text occurs {text.count(m.old)} times: bring this line up to date"
            elif not clean[m.test]:
                verdict = "the test fails without the mutation"
            else:
                path.write_text(text.replace(m.old, m.new), encoding="utf-8")
                verdict = "SURVIVES" if passes(m.test, copy) else "seen"
                path.write_text(text, encoding="utf-8")
            wrong += verdict != "seen"
            seconds = time.perf_counter() - begin
            sys.stdout.write(f"{m.name:52} {m.file:26} {verdict} ({seconds:.0f} s)\n    {m.test}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(chosen)} mutations, {wrong} not seen\n")
    return int(wrong > 0)


def passes(test: str, source: Path) -> bool:
    """Whether the test passes with the package at `source`."""
    settings = {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", test]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider"],
        cwd=ROOT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
    )
    if done.returncode not in (0, 1):  # 0 passed, 1 failed; anything else is no verdict
        raise SystemExit(f"{test} could not be run:\n{done.stdout}{done.stderr}")
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
