#!/bin/sh
# Install Chromium for the browser tests where that is allowed: as root, on a machine with apt.
command -v chromium >/dev/null 2>&1 && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core) >/dev/null 2>&1 \
    || echo "could not install chromium; the browser tests will skip"
else
  echo "chromium is not installed and this is not root with apt; the browser tests will skip"
fi
exit 0
