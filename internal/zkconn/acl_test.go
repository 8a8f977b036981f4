package zkconn

import (
	"crypto"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

func TestDigestIDIsTheServersDigest(t *testing.T) {
	for credential, want := range map[string]string{
		"super:test":       "super:D/InIHSb7yEEbrWz8b9l71RjZJU=",
		"user:pass:word":   zk.DigestACL(0, "user", "pass:word")[0].ID,
		"alice:":           zk.DigestACL(0, "alice", "")[0].ID,
		"zkrecipes:secret": zk.DigestACL(0, "zkrecipes", "secret")[0].ID,
	} {
		require.Equal(t, want, DigestID(0, []byte(credential)), credential)
	}
}

func TestNewIdentityHasAnIDOfItsOwn(t *testing.T) {
	cred, id := newIdentity(crypto.SHA256)
	other, otherID := newIdentity(crypto.SHA256)
	require.Equal(t, DigestID(crypto.SHA256, cred.Auth), id)
	require.NotEqual(t, cred.Auth, other.Auth)
	require.NotEqual(t, id, otherID)
	require.True(t, cred.Optional, "a server may refuse digests")
}

func TestOwnedACLLetsOnlyTheOwnerWrite(t *testing.T) {
	const owner = "zkrecipes:digest"
	own := zk.ACL{Perms: zk.PermRead | zk.PermWrite, Scheme: "digest", ID: owner}
	read := func(scheme, id string) zk.ACL { return zk.ACL{Perms: zk.PermRead, Scheme: scheme, ID: id} }
	for name, test := range map[string]struct {
		acl   []zk.ACL
		owner string
		want  []zk.ACL
	}{
		"world":                  {zk.WorldACL(zk.PermAll), owner, []zk.ACL{own, read("world", "anyone")}},
		"no right to read":       {zk.WorldACL(zk.PermCreate), owner, []zk.ACL{own, read("world", "anyone")}},
		"no ACL":                 {nil, owner, []zk.ACL{own}},
		"server refuses digests": {zk.WorldACL(zk.PermAll), "", []zk.ACL{read("world", "anyone")}},
		"one identity named twice": {
			[]zk.ACL{
				{Perms: zk.PermWrite, Scheme: "digest", ID: "a:x"},
				{Perms: zk.PermAll, Scheme: "ip", ID: "10.0.0.1"},
				{Perms: zk.PermRead, Scheme: "digest", ID: "a:x"},
			},
			owner,
			[]zk.ACL{own, read("digest", "a:x"), read("ip", "10.0.0.1")},
		},
	} {
		require.Equal(t, test.want, ownedACL(test.acl, test.owner), name)
	}
}
