#!/bin/bash
# Runs the tests that every change must pass, in two parts side by side:
#
#	inside  all packages that need nothing from outside, the recipes on zktest, and 50 seeds of
#	        each simulation. go test caches the results: what has not changed does not run again.
#	        -short: the tables of faults hit each second request. make try and make race of a package
#	        and make test-all hit all.
#	real    what only a real ZooKeeper can judge: TestReal..., on one server for all packages,
#	        and the comparison of zktest with a real server
#
# A test that is skipped is a failure here. What needs servers of its own, minutes, or other
# programs, is in scripts/test-all.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOGC=${GOGC:-400} # compilers, linkers and tests spend less time on collecting garbage

# These start, stop, cut off or configure servers. `make test-all PARTS=real` runs them.
own='ServersWithAnotherDigestAlgorithmNeedAnACL'
own+='|LineIsReapedWhenIdle|LeaseEndsInTimeWhen.*|CommitIsRefusedBehindAFollowerThatIsCutOff'
own+='|LockIsKeptThroughAChangeOfLeader|WaiterSurvivesAServerRestart'
own+='|ServerThatLostItsDataEndsLeasesAndServesNewSessions|OutageLongerThanTheTimeoutEndsLeasesAndKeepsWaiters'
own+='|NothingThatWasGivenBackComesBackForGood|AGrantThatWasLostEndsAndAWaitGoesOn|ProcessPausedLongerThanItsSessionGetsErrLost'
own+='|ServersLetInWhoeverKnowsThePassword|ServersTake.*|ServersAreSwitchedToSASLAndBackUnderLiveClients|ServersThatLetInWhomTheyRefuseAreNotBelieved'
own+='|LockOfAKilledProcessIsFreeAfterItsTimeout|SecurePortServesOnlyVerifiedPeers'

inside() {
	./scripts/packages.sh inside | ZK_HARNESS=zktest xargs go test -short -timeout 20m -p 4 -parallel 8 -skip '^Test(Real|Long)'
}

# Prints what failed or was skipped.
real() {
	go run ./internal/zkserver/with -env go test -v -count=1 -timeout 20m -p 4 -run '^TestReal' -skip "^TestReal($own)\$" \
		$(grep -l '^func TestReal' ./*_test.go ./internal/*/*_test.go | xargs -n 1 dirname | sort -u)
	SEEDS=10 env -u ZK_SERVERS go test -v -count=1 -timeout 20m -run '^TestZktestBehavesLikeZooKeeper(OnRandomRequests|ThatWasRestarted)?$' ./internal/conformance
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
real >"$dir/real" 2>&1 &
beside=$!
status=0
inside | tee "$dir/inside" || status=1
if ! wait "$beside"; then
	status=1
	grep -E -B 60 -A 30 '^ *--- FAIL|^panic' "$dir/real" || grep -v '^[[:space:]]at ' "$dir/real" | tail -n 40 || true
fi
grep -E '^(ok|FAIL)[[:space:]]+github' "$dir/real" || true
if grep -qE '^ *--- SKIP' "$dir/real"; then
	status=1
	echo "test: skipped on the real server:"
	grep -E -A 2 '^ *--- SKIP' "$dir/real"
fi
if [ "$status" != 0 ]; then
	echo "test: what has failed:"
	grep -hE '^ *--- (FAIL|SKIP)|^panic|^FAIL[[:space:]]+github|^with: zkserver: ' "$dir/inside" "$dir/real" || true
fi
exit "$status"
