# shellcheck shell=bash
# What .ci/with-mysql and .ci/with-group have in common: it finds or fetches a mysqld. $mysqld is the command, $places has its
# options, and $found is its version. Source .ci/server.bash first.

version=${HIPQ_TEST_MYSQL_VERSION:-} cache=${XDG_CACHE_HOME:-$HOME/.cache}/hipq-tests/mysql
mysqld=() # the program, after the loader that it needs, if any

# fits: 0 if $mysqld is MySQL's and has the version that was asked for; sets $found to its version
fits() {
  local is
  is=$("${mysqld[@]}" --no-defaults --version 2>/dev/null) || return 1
  [[ $is != *MariaDB* && $is =~ Ver\ ([0-9.]+) ]] && found=${BASH_REMATCH[1]} && [[ ! $version || $found. == "$version".* ]]
}

installed() {
  mysqld=(mysqld)
  fits
}

# unpacked: takes the mysqld in the cache, with its own libraries, because those of this system may be older
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

# fetch: gets the packages of Debian's unstable. It tells apt that nothing is installed, so apt also gets the C library.
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
  # another script may fetch it at the same time, so move it into place as a whole
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
