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

func TestEachOperationNeedsItsPermission(t *testing.T) {
	srv := NewServer(t)
	c, owner := connect(t, srv, 10*time.Second), connect(t, srv, 10*time.Second)
	require.NoError(t, owner.AddAuth("digest", []byte("me:pw")))
	createWith := func(path string, perms int32) {
		_, err := owner.Create(path, nil, 0, append(zk.WorldACL(perms), zk.AuthACL(zk.PermAll)...))
		require.NoError(t, err)
	}
	for perm, do := range map[int32]func(path string) error{
		zk.PermRead:   func(path string) error { _, _, err := c.Get(path); return err },
		zk.PermWrite:  func(path string) error { _, err := c.Set(path, nil, -1); return err },
		zk.PermCreate: func(path string) error { _, err := c.Create(path+"/c", nil, 0, worldACL); return err },
		zk.PermDelete: func(path string) error {
			_, err := owner.Create(path+"/d", nil, 0, worldACL)
			require.NoError(t, err)
			return c.Delete(path+"/d", -1)
		},
		zk.PermAdmin: func(path string) error { _, err := c.SetACL(path, worldACL, -1); return err },
	} {
		with, without := "/with"+string('0'+perm), "/without"+string('0'+perm)
		createWith(with, perm)
		createWith(without, zk.PermAll&^perm)
		require.NoError(t, do(with))
		require.ErrorIs(t, do(without), zk.ErrNoAuth)
	}
}

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
