package line

import (
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

func TestWhatIsRememberedOfContainersIsBounded(t *testing.T) {
	var begun int
	c := newContainers(IdleLine)
	c.begin = func() { begun++ }
	for i := range 2 * maxContainers {
		c.created(fmt.Sprintf("/%d", i), &zk.Stat{Czxid: int64(i + 1)})
	}
	require.Equal(t, maxContainers, len(c.all))
	require.Equal(t, maxContainers, c.recent.Len()+c.rest.Len())
	require.Equal(t, 1, begun, "early, because there are so many")
	require.Len(t, c.takeDue(), tidyAtOnce)
	c.stop()
}
