#!/bin/sh
# Installs MinIO, a second server of S3 that tests of the object store start on loopback. Without it they are skipped.
# MinIO is under the AGPL: it is only run as a program of its own, and nothing links it or names it in go.mod. The commit is
# that of the last module (2026-02-12); go install checks the module's sum.
set -eu
cd / # outside of any module
exec go install github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c
