package line

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

func TestWhatIsRememberedOfContainersIsBounded(t *testing.T) {
	closed, cancel := context.WithCancel(context.Background())
	cancel() // so nothing is deleted
	c := &containers{idle: IdleLine, client: &session.Client{Closing: closed}, all: map[string]*container{}}
	for i := range 2 * maxContainers {
		c.created(fmt.Sprintf("/%d", i), nil, &zk.Stat{Czxid: int64(i + 1)})
	}
	require.Len(t, c.all, maxContainers)
}
