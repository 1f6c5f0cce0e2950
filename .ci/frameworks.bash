# shellcheck shell=bash
# The scripts of .ci/frameworks.d source it. If their first argument is prepare, they only install what they need.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck disable=SC2034 # the scripts ask for it
name=$(basename "$0")
export HIPQ_TEST_REQUIRE_MYSQL=1 PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore

# install PACKAGE...: Debian's, if this user may install them
install() {
  local root='' apt
  if [[ $EUID != 0 ]]; then root='sudo -n'; fi
  apt="$root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300"
  $apt update </dev/null >/dev/null
  $apt install -y --no-install-recommends --no-remove "$@" </dev/null >/dev/null
}

# build [prepare]: builds hipq, unless HIPQ_TEST_HIPQ is one; or ends the preparations
build() {
  if [[ ${1:-} == prepare ]]; then exit; fi
  if [[ ${HIPQ_TEST_HIPQ:-} ]]; then return; fi
  bin=$(mktemp -d)
  trap 'rm -rf "$bin"' EXIT
  CGO_ENABLED=0 go build -o "$bin/hipq" .
  export HIPQ_TEST_HIPQ=$bin/hipq
}
