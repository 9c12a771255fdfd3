# For other scripts: `source scripts/root.sh`.
# shellcheck shell=bash

# Asks for the password now, once, and keeps it valid while the script runs.
ask_for_root() {
  [ "$(id -u)" != 0 ] || return 0
  if ! command -v sudo >/dev/null; then
    echo "clusters and bundles need root, and there is no sudo: install it, or run this as root" >&2
    exit 1
  fi
  sudo -n true 2>/dev/null || sudo -v
  # Ends with the script, also if that is killed.
  while kill -0 $$ && sudo -n true && sleep 30; do :; done >/dev/null 2>&1 </dev/null &
}
