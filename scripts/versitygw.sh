#!/bin/sh
# Installs versitygw (Apache-2.0), the server of S3 that tests of the object store start on loopback. Without it they are
# skipped. go install checks the module's sum.
set -eu
cd / # outside of any module
exec go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
