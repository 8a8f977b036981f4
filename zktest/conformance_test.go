package zktest_test

import (
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/conformance"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The cases of internal/conformance, with what they assert. There their transcripts are
// compared with those of real servers, too.
func TestTheCasesOfConformanceHold(t *testing.T) {
	for _, version := range []zktest.Version{zktest.ZooKeeper38, zktest.ZooKeeper39} {
		t.Run(version.String(), func(t *testing.T) { conformance.OnZktest(t, version) })
	}
}
