// Package costs counts the requests that each call sends in a named situation, on a server in
// this process, which emulates ZooKeeper 3.9 and then 3.8. It has only tests.
// testdata/costs.txt has the figures of all of them, and no other test compares exact requests: a
// change of what goes over the wire changes lines of one file, which
//
//	go test ./internal/costs -update
//
// writes anew. What docs/costs.md states must agree with it.
package costs
