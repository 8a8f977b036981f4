#!/bin/bash
# Prints the packages whose tests run on a ZooKeeper server that harness.Run finds or starts:
# the root, and those beside which the tests of the recipes stand.
cd "$(dirname "$0")/.."
grep -l --include='*_test.go' -r 'harness\.Run(m)' . | xargs -n 1 dirname | sort
