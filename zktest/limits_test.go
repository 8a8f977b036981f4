package zktest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/conformance"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestAContainerIsReapedAtTheCheckAfterThatOfItsLastChild(t *testing.T) {
	const parents = 20
	var reaped []string
	inMemory(t, func(t *testing.T, srv *zktest.Server) {
		c := open(t, srv)
		for i := range parents {
			path := fmt.Sprintf("/%02d", i)
			c.Ok(conformance.Container(path), conformance.Container(path+"/child"))
			c.Ok(conformance.Plain(path+"/child/n"), conformance.Delete(path+"/child/n", -1))
		}
		for checks, left := range []int{parents, 0} {
			time.Sleep(time.Second)
			synctest.Wait()
			require.Len(t, reaped, (checks+1)*parents)
			require.True(t, slices.IsSorted(reaped[checks*parents:]), reaped)
			require.Len(t, srv.Children("/"), left+1) // and /zookeeper
		}
	}, zktest.ContainerCheckInterval(time.Second), zktest.OnChange(func(c zktest.Change) {
		if c.Deleted && !strings.HasSuffix(c.Path, "/n") {
			reaped = append(reaped, c.Path)
		}
	}))
}

func TestTTLZnodesAreReaped(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zktest.Server) {
		c := open(t, srv)
		c.Fails(jute.ErrBadArguments, conformance.CreateTTL("/a", nil, conformance.Open, jute.FlagTTL, 0))
		c.Ok(conformance.CreateTTL("/a", nil, conformance.Open, jute.FlagTTL, 5000))
		time.Sleep(4 * time.Second)
		c.Ok(conformance.Exists("/a", true))
		require.Equal(t, []conformance.Event{{Type: jute.EventDeleted, Path: "/a"}}, c.Receive().Events)
	}, zktest.ExtendedTypes(), zktest.ContainerCheckInterval(time.Second))
}

func TestAConnectionWithoutAHandshakeIsClosed(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zktest.Server) {
		began := time.Now()
		s := conformance.On(t, srv)
		silent, slow, served := s.Dial("silent"), s.Dial("slow"), open(t, srv)
		slow.Raw([]byte{0, 0, 0, 45, 0})
		silent.Closed()
		slow.Closed()
		require.Equal(t, zktest.HandshakeTimeout, time.Since(began))
		served.Ok(conformance.Exists("/", true)) // the others stay
	})
}

func TestADelayedHandshakeIsNotCutOff(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zktest.Server) {
		open(t, srv).Ok(conformance.Exists("/", true))
	}, zktest.WithPlan(zktest.NewPlan(zktest.Fault{Do: zktest.Delay, Op: "connect", For: 2 * zktest.HandshakeTimeout})))
}
