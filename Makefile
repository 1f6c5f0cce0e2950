# The tools that lint and releases need, at these versions; they are built into .bin/ on first use.
GOLANGCI_LINT_VERSION := v2.15.0
GORELEASER_VERSION    := v2.15.1
GOVULNCHECK_VERSION   := v1.9.0
CYCLONEDX_VERSION     := v1.10.0
DEADCODE_VERSION      := v0.38.0
VALE_VERSION          := v3.21.0

# A folder per version, so that a new version above is a new target.
GOLANGCI_LINT := .bin/golangci-lint-$(GOLANGCI_LINT_VERSION)/golangci-lint
GORELEASER    := .bin/goreleaser-$(GORELEASER_VERSION)/goreleaser
GOVULNCHECK   := .bin/govulncheck-$(GOVULNCHECK_VERSION)/govulncheck
CYCLONEDX     := .bin/cyclonedx-gomod-$(CYCLONEDX_VERSION)/cyclonedx-gomod
DEADCODE      := .bin/deadcode-$(DEADCODE_VERSION)/deadcode
VALE          := .bin/vale-$(VALE_VERSION)/vale

# PKG narrows test and race: make test PKG=./internal/store
PKG ?= ./...
VERSION = $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# These targets bring a server, so a test that finds none is a fault and not a reason to skip.
export HIPQ_TEST_REQUIRE_MYSQL := 1

.PHONY: help build demo test test-frameworks test-browser pictures test-engines race crash proof others bench bench-galera lint prose vulnerabilities fmt install packaging sbom deb snapshot packages release clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build ./hipq, one static binary
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/hipq/hipq/cmd.version=$(VERSION)" -o hipq .

demo: build ## show hipq at work
	docs/demo.sh

BUT_CRASH = $(if $(filter ./...,$(PKG)),$$(go list ./... | grep -v /internal/crash),$(PKG))
# Thousands of rows, each inserted and worked on alone: it runs each night, with those of make crash.
NIGHTLY := ^TestOneRowStopsNoOther$$/^mysql$$/^checked=true$$
# Without cgo, as releases are built: what tests start thousands of times starts sooner. Without vet, which make lint runs.
test: ## run all tests on SQLite and on a MariaDB of their own, but those that kill workers
	@.ci/clients
	CGO_ENABLED=0 .ci/times .ci/with-mariadb go test -vet=off -count=1 -p 3 -parallel 4 -timeout 40m -skip '$(NIGHTLY)' $(BUT_CRASH)
	$(if $(filter ./...,$(PKG)),CGO_ENABLED=0 go test -C examples/gorm -vet=off -count=1 ./...)

# make test-frameworks FRAMEWORKS=laravel: one of them. QUICK=1 runs the clients with few drivers, and of the frameworks one.
test-frameworks: ## run the tests of the clients in other languages, and of their frameworks; QUICK=1 takes two minutes
	.ci/frameworks $(if $(QUICK),--quick) $(FRAMEWORKS)

CHROMIUM ?= $(firstword $(foreach c,chromium google-chrome chromium-browser,$(shell command -v $c)) chromium)
# The pages of hipq ui and the report, on SQLite and on a MariaDB of its own. HIPQ_PICTURES=DIR keeps what the browser saw, and
# HIPQ_TABS=10m says what three open tabs cost. It gets
# axe-core from npm.
test-browser: ## open the pages of hipq ui and the report in a real browser, and act there
	@.ci/clients $(CHROMIUM) npm
	cd .ci/browser && npm ci --ignore-scripts --no-audit --no-fund --silent
	CHROMIUM=$(CHROMIUM) .ci/with-mariadb go test -C internal/ui/browser -count=1 -timeout 20m ./...

pictures: build ## make the pictures of hipq ui, of the report and of a terminal in docs/pictures
	cd .ci/browser && npm ci --ignore-scripts --no-audit --no-fund --silent
	CHROMIUM=$(CHROMIUM) HIPQ_DOCS=$(CURDIR)/docs/pictures go test -C internal/ui/browser -count=1 -run TestPictures ./...
	node .ci/terminal.mjs ./hipq docs/pictures/terminal.svg

# make test-engines ENGINES=galera: one of them
test-engines: ## run the tests that have a database on MySQL, and on a Galera cluster
	@.ci/clients
	PKG=$(PKG) .ci/engines $(ENGINES)

# The race detector slows SQLite, which is Go code here, ten times as much as a server that it doesn't see. The code above the
# two is the same, so these tests run on MariaDB alone; and not those in which nothing happens at once, or only in the server's
# procedures or in processes. With SHORT=1 they are those of what a worker does; the others run each night.
WORKERS := ./queue/... ./internal/store ./internal/engine ./internal/handling ./internal/scheduler ./internal/workers
BUT_ALONE = $(if $(filter ./...,$(PKG)),$(if $(SHORT),$(WORKERS),\
	$$(go list ./... | grep -v -e /internal/crash -e /internal/conformance -e /internal/proof -e /schema$$)),$(PKG))
race: ## run the shorter tests under the race detector (needs a C compiler); SHORT=1 leaves some out
	@.ci/clients
	CGO_ENABLED=1 .ci/times .ci/with-mariadb go test -vet=off -race -short -skip '^TestProcedures|/^sqlite$$' -count=1 -timeout 60m $(BUT_ALONE)

# The rounds of signals are those by whose seeds there are limits and shards. Without SHORT=1 there are more of them, the store's tests at
# random run ten times, and NIGHTLY runs. The race detector leaves them out: it slows processes down and doesn't look across them.
crash: ## kill and stop workers and check that no job is lost, doubled, or held up; SHORT=1 takes a few minutes
	@.ci/clients
	.ci/times .ci/with-mariadb go test -vet=off -count=1 -timeout 20m -v $(if $(SHORT),-short) ./internal/crash
	FUZZ_PLAIN=1 .ci/fuzz 5000x
	.ci/proof --round 7 'signals/$(if $(SHORT),mariadb,*)/1'
	.ci/proof --round 8 'signals/*/1'
	$(if $(SHORT),,.ci/proof --for 10m 'signals/*/1')
	$(if $(SHORT),,.ci/with-mariadb go test -count=10 -timeout 60m -run 'OverShards|InAShard|AtRandom' ./internal/store)
	$(if $(SHORT),,.ci/with-mariadb go test -count=1 -run '$(NIGHTLY)' ./cmd)
	$(if $(SHORT),,.ci/with-mariadb go test -count=1 -timeout 100m -run TestHourOfCron ./internal/crash -crash.cron 76 -v)

proof: ## run the campaign of faults: about eight hours, in turns; TURNS='signals/*/*' chooses, TURNS='--short 3m' takes two hours
	@.ci/clients faketime ip
	.ci/proof $(TURNS)

others: ## put other queues under the same faults as hipq: half an hour; TURNS='laravel/*' chooses
	@.ci/clients
	.ci/others $(TURNS)

bench: ## measure throughput on a MariaDB with fsync on
	.ci/with-mariadb --durable go test -run '^$$' -bench . -benchtime 1x -timeout 60m ./internal/bench

bench-galera: ## measure throughput on a Galera cluster of three nodes
	.ci/with-galera go test -run '^$$' -bench Galera -benchtime 1x -timeout 20m ./internal/bench

# What systems differ in is how programs are run. To build all for each would take minutes, mostly for SQLite.
RUNS_PROGRAMS := ./internal/process/... ./internal/guard ./internal/handling ./queue/handler
lint: $(GOLANGCI_LINT) $(DEADCODE) ## check style, imports between packages, and common mistakes
	GOOS=darwin go vet $(RUNS_PROGRAMS)
	GOOS=freebsd go vet $(RUNS_PROGRAMS)
	GOOS=windows go build ./queue/handler
	$(GOLANGCI_LINT) run
	for module in internal/ui/browser examples/gorm; do \
		(cd $$module && $(CURDIR)/$(GOLANGCI_LINT) run --config $(CURDIR)/.golangci.yml) || exit 1; done
	@unused=$$($(DEADCODE) -test ./...); if [ -n "$$unused" ]; then echo "$$unused" >&2; exit 1; fi
	EDIT_ONLY=1 internal/crash/mutants.sh
	@$(MAKE) --no-print-directory prose
	@$(MAKE) --no-print-directory vulnerabilities

prose: $(VALE) ## check the English of pages, comments, and the messages that scripts print
	@VALE=$(VALE) .ci/prose/check

# It asks https://vuln.go.dev. Without that, in GitHub's workflows (which set the variable) nothing passes unchecked; elsewhere it says so.
vulnerabilities: $(GOVULNCHECK) ## check whether known vulnerabilities of libraries, or of Go, concern hipq
	@said=$$($(GOVULNCHECK) ./... 2>&1); status=$$?; echo "$$said"; case $$status-$$GITHUB_ACTIONS-$$said in \
		0-*) ;; \
		1--*"fetching vulnerabilities"*) echo "vulnerabilities: nothing was checked, because the database can't be reached" ;; \
		*) exit 1 ;; esac

fmt: $(GOLANGCI_LINT) ## format the source
	$(GOLANGCI_LINT) fmt

# PREFIX is where it goes, below DESTDIR if that is set; BINARY is what is installed, and is built if it isn't there.
PREFIX  ?= /usr/local
DESTDIR ?=
BINARY  ?= hipq
SHARE    = $(DESTDIR)$(PREFIX)/share

hipq:
	$(MAKE) build

install: $(BINARY) ## install hipq into PREFIX (/usr/local): binary, man pages, completions, docs, examples
	umask 022 && mkdir -p $(DESTDIR)$(PREFIX)/bin $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions \
		$(SHARE)/fish/vendor_completions.d $(SHARE)/doc/hipq
	install -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/hipq
	umask 022 && $(DESTDIR)$(PREFIX)/bin/hipq man $(SHARE)/man/man1
	umask 022 && $(DESTDIR)$(PREFIX)/bin/hipq completion bash >$(SHARE)/bash-completion/completions/hipq
	umask 022 && $(DESTDIR)$(PREFIX)/bin/hipq completion zsh >$(SHARE)/zsh/site-functions/_hipq
	umask 022 && $(DESTDIR)$(PREFIX)/bin/hipq completion fish >$(SHARE)/fish/vendor_completions.d/hipq.fish
	cp -R README.md CHANGELOG.md hipq.example.yaml docs examples $(SHARE)/doc/hipq
	chmod -R u=rwX,go=rX $(SHARE)/doc/hipq

# A package has what make install brings, and what belongs to a system. With the commit's date on all of it, the same source gives
# the same files.
COMMITTED = $(shell git log -1 --format=%ct)
STAMP     = $(shell TZ=UTC0 git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ)
packaging: ## write into build/ what goes with the binary: man pages, completions, docs, units, crontab, config
	rm -rf build/_system && mkdir -p build/_system/usr/lib/systemd/system
	CGO_ENABLED=0 go build -trimpath -o build/hipq .
	SOURCE_DATE_EPOCH=$(COMMITTED) $(MAKE) --no-print-directory install DESTDIR=build/_system PREFIX=/usr BINARY=build/hipq
	rm -r build/_system/usr/bin # goreleaser brings that of each system
	gzip -9n build/_system/usr/share/man/man1/*
	mv build/_system/usr/share/zsh/site-functions/_hipq build/_hipq # Debian has another folder for it
	rm -r build/_system/usr/share/zsh
	cd docs/examples && for unit in *.service *.timer; do sed 1d "$$unit" >"$(CURDIR)/build/_system/usr/lib/systemd/system/$$unit"; done
	sed -E '/^(MAILTO=|.* hipq  hipq )/s/^/#/' docs/examples/crontab >build/crontab
	sed 's|^  path: hipq.db|  path: /var/lib/hipq/hipq.db|' hipq.example.yaml >build/hipq.yaml
	chmod -R u=rwX,go=rX build/_system build/crontab build/_hipq
	find build/_system build/crontab build/_hipq build/hipq.yaml -exec touch -d $(STAMP) {} +

# It reads the binary that make packaging has built.
sbom: $(CYCLONEDX) ## write into build/ the list of the libraries that are in the binary
	$(CYCLONEDX) bin -json -std -noserial -notimestamp -version $(VERSION) -output build/sbom.cdx.json build/hipq

# Like make snapshot, for one system: a minute instead of ten.
deb: $(GORELEASER) ## build the .deb of this system into dist/, and look into it
	mkdir -p build && sed "s/targets: .*/targets: [linux_$$(go env GOHOSTARCH)]/; /make sbom/d" .goreleaser.yaml >build/deb.yaml
	$(GORELEASER) release --config build/deb.yaml --snapshot --clean --skip=archive,homebrew,ko,sbom
	if command -v dpkg-deb >/dev/null; then HIPQ_TEST_DEB=$$(echo $(CURDIR)/dist/*.deb) go test -vet=off -count=1 -run TestDocs/install ./cmd; \
		else echo "deb: not looked into, because dpkg-deb isn't here"; fi

DOCKER := $(shell docker info >/dev/null 2>&1 && echo yes)
snapshot: $(GORELEASER) ## build a release into dist/, and publish nothing
	@$(if $(DOCKER),,echo "snapshot: without the container image, because no Docker daemon answers here")
	$(GORELEASER) release --snapshot --clean --timeout 3h $(if $(DOCKER),,--skip=ko)

packages: snapshot ## build a release, install its .deb and .rpm in a bare Debian, run README's quick start, and remove them (needs root)
	.ci/packages dist/hipq_*_linux_$$(go env GOHOSTARCH).deb

# Its notes are what CHANGELOG.md says of the version: from the heading to the next.
release: $(GORELEASER) ## publish the tag that is checked out, as a draft, as the release workflow does
	mkdir -p build
	version=$$(git describe --tags --exact-match) && \
		awk -v heading="## [$${version#v}]" 'index($$0, "## ") == 1 { on = index($$0, heading) == 1; next } on' CHANGELOG.md >build/notes.md
	grep -q . build/notes.md || { echo "CHANGELOG.md has no section for this tag" >&2; exit 1; }
	$(GORELEASER) release --clean --release-notes build/notes.md

clean: ## remove what was built here
	rm -rf hipq .bin build dist coverage.*

$(GOLANGCI_LINT):
	GOBIN=$(CURDIR)/$(@D) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)

$(GORELEASER):
	GOBIN=$(CURDIR)/$(@D) go install github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)

$(GOVULNCHECK):
	GOBIN=$(CURDIR)/$(@D) go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)

$(DEADCODE):
	GOBIN=$(CURDIR)/$(@D) go install golang.org/x/tools/cmd/deadcode@$(DEADCODE_VERSION)

# It needs a C compiler.
$(VALE):
	GOBIN=$(CURDIR)/$(@D) go install github.com/vale-cli/vale/v3/cmd/vale@$(VALE_VERSION)

$(CYCLONEDX):
	GOBIN=$(CURDIR)/$(@D) go install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(CYCLONEDX_VERSION)
