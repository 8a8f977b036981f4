// Package zkrecipes has locks on top of ZooKeeper: fair, without a herd, with a
// fencing token on every grant.
package zkrecipes
