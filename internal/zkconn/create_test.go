package zkconn

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

func TestCreateSizeIsTheSizeOfTheRecord(t *testing.T) {
	for _, create := range []*zk.CreateRequest{
		{Path: "/a"},
		{Path: "/ä/b", Data: []byte("data")},
		{Path: "/a", Data: []byte{}, Acl: append(zk.WorldACL(zk.PermAll), zk.DigestACL(zk.PermRead, "user", "password")...)},
	} {
		record := appendOp(nil, create)[len(appendOpHeader(nil, 0, false)):]
		require.Equal(t, len(record), CreateSize(create.Path, create.Data, create.Acl), "%+v", create)
	}
}
