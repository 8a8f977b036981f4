package zkconn

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/wire"
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

func TestIdentityIsOfASecretAlone(t *testing.T) {
	seen := map[string]string{}
	for name, of := range map[string]wire.Credential{
		"none":             {},
		"alice":            {Scheme: "digest", Auth: []byte("alice:secret")},
		"bob":              {Scheme: "digest", Auth: []byte("bob:secret")},
		"another password": {Scheme: "digest", Auth: []byte("alice:guess")},
		"another scheme":   {Scheme: "diges", Auth: []byte("talice:secret")},
	} {
		id := Identity(of)
		require.Equal(t, id, Identity(of), name)
		require.True(t, id.Optional, "a server may refuse digests")
		require.NotContains(t, string(id.Auth), "secret", name)
		require.Empty(t, seen[string(id.Auth)], name)
		seen[string(id.Auth)] = name
	}
}

func TestOwnedACLLetsOnlyTheOwnerWrite(t *testing.T) {
	identity := wire.Credential{Scheme: "digest", Auth: []byte("zkrecipes:x")}
	own := zk.ACL{Perms: zk.PermWrite, Scheme: "digest", ID: DigestID(0, identity.Auth)}
	use := func(scheme, id string) zk.ACL {
		return zk.ACL{Perms: zk.PermAll &^ zk.PermWrite, Scheme: scheme, ID: id}
	}
	read := zk.ACL{Perms: zk.PermRead, Scheme: "digest", ID: "a:x"}
	for name, test := range map[string]struct{ acl, want []zk.ACL }{
		"world":              {zk.WorldACL(zk.PermAll), []zk.ACL{own, use("world", "anyone")}},
		"no right to create": {zk.WorldACL(zk.PermRead | zk.PermWrite), []zk.ACL{own, {Perms: zk.PermRead, Scheme: "world", ID: "anyone"}}},
		"no ACL":             {nil, []zk.ACL{own}},
		"in any order, once": {
			[]zk.ACL{
				{Perms: zk.PermWrite, Scheme: "digest", ID: "b:x"},
				{Perms: zk.PermAll, Scheme: "ip", ID: "10.0.0.1"},
				read, {Perms: zk.PermRead | zk.PermWrite, Scheme: "digest", ID: "a:x"},
			},
			[]zk.ACL{read, own, use("ip", "10.0.0.1")},
		},
	} {
		require.Equal(t, test.want, OwnedACL(test.acl, 0, []wire.Credential{identity}), name)
	}
}
