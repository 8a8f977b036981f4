// Package pagetest tests the page of zkr serve in a real browser. It needs chromium, which
// scripts/setup-chromium.sh installs, so `make test` leaves it out, and `make test-all
// PARTS=page` runs it. It is a module of its own: cmd/zkr needs no modules that drive a browser.
package pagetest
