# Everything here is a plain go command; see docs/contribute/testing.md.
GO ?= go
FUZZTIME ?= 1m

# The crawler needs no C, and no libc where it runs. The race detector does.
export CGO_ENABLED ?= 0

# Packages that own goroutines, or are called from many.
CONCURRENT = ./drum ./queue ./star ./beast ./polite ./dnscache ./fetch ./warc/... ./internal/crawllog ./internal/simweb ./crawl/... ./state/audit ./state/explain ./state/export ./state/repair ./cmd/...

.PHONY: build test long race fuzz staticcheck crash mutations sim bench lint flags site site-serve release reproduce supply ci

build:
	$(GO) build -o drumbeat .

test:
	$(GO) test ./...

# Every test in its long form, but the mutants: hours. .ci/run has a choice of them.
long: sim crash
	$(GO) test ./drum ./queue ./star ./beast ./warc ./internal/crawllog -timeout 3h -args -long
	$(GO) test ./internal/soak -run TestSoak -timeout 1h -args -long

race:
	CGO_ENABLED=1 $(GO) test -race -short $(CONCURRENT)

fuzz:
	scripts/fuzz.sh -t $(FUZZTIME)

staticcheck:
	scripts/staticcheck.sh

crash:
	$(GO) test -run 'Crash|Kill|Fault|Power' ./disk ./queue ./drum ./beast ./star ./warc/... ./internal/crawllog
	$(GO) test -run 'Kill|Cut' ./crawl ./state/repair -timeout 1h -args -long

# Each mutant builds the crawler anew: an hour or so of one core. See internal/mutate.
mutations:
	$(GO) test ./internal/mutate -run TestMutants -v -timeout 3h -args -mutants all

sim:
	$(GO) test ./crawl ./state/audit ./state/explain ./state/export ./state/repair -timeout 3h -args -long

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) test ./internal/tidy

flags:
	$(GO) test ./cmd -run "Test(Flags|Metrics)Page" -update

# The documentation as a site in dist/site, to be opened as files or put on a server. A warning of the generator is an error.
# The first call compiles the generator, which takes minutes.
site:
	cd docs/site && HUGO_PARAMS_VERSION=$$(git describe --tags --always 2>/dev/null) $(GO) tool hugo --panicOnWarning --cleanDestinationDir --noBuildLock
	@echo "dist/site/index.html"

site-serve:
	cd docs/site && $(GO) tool hugo server --renderToMemory --noBuildLock

# Binaries, archives, packages and checksums in dist/. VERSION defaults to git describe.
release:
	scripts/release.sh

# Builds the commit twice, each time from a clone, and compares all checksums. It takes ten minutes.
reproduce:
	scripts/reproduce.sh

# Known vulnerabilities, and whether images are pinned by digest.
supply:
	scripts/govulncheck.sh
	scripts/pin-images.sh

ci:
	.ci/run
