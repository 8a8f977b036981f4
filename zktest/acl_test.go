package zktest

import (
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

func TestDigestAlgorithmDecidesTheIDsThatACLsName(t *testing.T) {
	sum := sha256.Sum256([]byte("me:pw"))
	id := "me:" + base64.StdEncoding.EncodeToString(sum[:])
	c := connect(t, NewServer(t, DigestAlgorithm(crypto.SHA256)), 10*time.Second)
	require.NoError(t, c.AddAuth("digest", []byte("me:pw")))
	_, err := c.Create("/n", nil, 0, []zk.ACL{{Perms: zk.PermAll, Scheme: "digest", ID: id}})
	require.NoError(t, err)
	_, _, err = c.Get("/n")
	require.NoError(t, err)
	_, err = c.Create("/other", nil, 0, zk.DigestACL(zk.PermAll, "me", "pw"))
	require.NoError(t, err)
	_, _, err = c.Get("/other")
	require.ErrorIs(t, err, zk.ErrNoAuth, "an id of SHA-1")
}
