# shellcheck shell=bash
# What .ci/with-mysql and .ci/with-group have in common: the mysqld that they start, in $mysqld, with $places and its version in $found.
# It needs .ci/server.bash.

version=${HIPQ_TEST_MYSQL_VERSION:-} cache=${XDG_CACHE_HOME:-$HOME/.cache}/hipq-tests/mysql
mysqld=() # the program, and what it needs where it is

# fits: whether $mysqld is MySQL's, and of that version; the one that it is, is in $found then
fits() {
  local is
  is=$("${mysqld[@]}" --no-defaults --version 2>/dev/null) || return 1
  [[ $is != *MariaDB* && $is =~ Ver\ ([0-9.]+) ]] && found=${BASH_REMATCH[1]} && [[ ! $version || $found. == "$version".* ]]
}

installed() {
  mysqld=(mysqld)
  fits
}

# unpacked: with the libraries that came with it, for those of this system may be older
unpacked() {
  local loader
  loader=$(find "$cache"/usr/lib* -name 'ld-linux*.so.*' 2>/dev/null | head -n 1)
  [[ $loader ]] || return 1
  mysqld=("$loader" --library-path "$(dirname "$(find "$cache/usr/lib" -name 'libstdc++.so.6')"):$cache/usr/lib/mysql/private"
    "$cache/usr/sbin/mysqld")
  fits || return 1
  places=(--basedir="$cache/usr" --plugin-dir="$cache/usr/lib/mysql/plugin" --lc-messages-dir="$cache/usr/share/mysql"
    --character-sets-dir="$cache/usr/share/mysql/charsets")
}

# fetch: apt is told of another suite, and of no package that is installed, so that it gets everything down to the C library
fetch() {
  local apt=$dir/apt keyring=/usr/share/keyrings/debian-archive-keyring.gpg mirror deb
  [[ -e $keyring ]] && command -v apt-get dpkg-deb || return 1
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)
  mkdir -p "$apt"/{state,lists/partial,archives/partial}
  : >"$apt/status"
  echo "deb [signed-by=$keyring] ${mirror:-http://deb.debian.org/debian} unstable main" >"$apt/sources.list"
  local get=(apt-get -q -y -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=- -o Dir::Etc::PreferencesParts=-
    -o Dir::State="$apt/state" -o Dir::State::Lists="$apt/lists" -o Dir::State::Status="$apt/status" -o Dir::Cache="$apt"
    -o Dir::Cache::Archives="$apt/archives" -o APT::Sandbox::User= -o APT::Install-Recommends=false -o Debug::NoLocking=true)
  "${get[@]}" update && "${get[@]}" install --download-only mysql-server-core || return 1
  mkdir "$apt/root"
  for deb in "$apt"/archives/*.deb; do
    [[ $deb == *perl* ]] || dpkg-deb --extract "$deb" "$apt/root" || return 1
  done
  # whole or not at all, whoever else fetches it now
  rm -rf "$cache" && mkdir -p "$(dirname "$cache")" && mv "$apt/root" "$cache.$$" && mv -T "$cache.$$" "$cache"
}

places=()
if ! installed && ! unpacked; then
  say "no MySQL ${version:+$version }here: fetching Debian's"
  if [[ -d $cache ]]; then
    say "that of Debian, in $cache, is another version"
    exit 69
  fi
  fetch </dev/null >"$dir/log" 2>&1 || { report "MySQL can't be had" && exit 69; }
  unpacked || { say "MySQL ${version:-}can't be had: Debian has another version, or it does not run here" && exit 69; }
fi

