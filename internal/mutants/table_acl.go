package main

// aclMutants are about what a znode's ACL and the client's identity are for.
var aclMutants = []mutant{
	{
		name: "acl-anybody-writes",
		what: "Everybody who may use a recipe may write what it creates.",
		edits: []edit{{
			in:  "OwnedACL",
			old: `if a.Perms &^= zk.PermWrite; a.Perms != 0 {`,
			new: `if a.Perms != 0 {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestWritesOfOthers",
	},
	{
		name: "acl-constant-for-all",
		what: "The library's identity does not depend on the secrets.",
		edits: []edit{{
			in:  "Identity",
			old: `h := hmac.New(sha256.New, []byte("zkrecipes: the identity that writes, 1"))`,
			new: `
				of = wire.Credential{}
				h := hmac.New(sha256.New, []byte("zkrecipes: the identity that writes, 1"))`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestWritesOfOthers",
	},
	{
		name: "acl-of-each-session",
		what: "Each session has an ACL of its own.",
		edits: []edit{{
			in:  "New",
			old: `if cfg.Owned {`,
			new: `
				if cfg.Owned {
					cfg.Identities = []wire.Credential{Identity(wire.Credential{Auth: []byte(rand.Text())})}`,
			imports: []string{"crypto/rand"},
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestACLsDoNotComeAndGo$/without",
	},
	{
		name: "acl-of-places-alone",
		what: "Lines do not bear the ACL of their places, so its number goes with each place.",
		edits: []edit{{
			in:  "Session.CreateContainer",
			old: `acl := s.ACL()`,
			new: `acl := s.cfg.ACL`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestACLsDoNotComeAndGo$/without",
	},
	{
		name: "credentials-printed",
		what: "A Client prints all that it holds, and holds its credentials.",
		edits: []edit{{
			in:  "zkrecipes.Client",
			old: `{ client *session.Client }`,
			new: `
				{
					client  *session.Client
					secrets []Auth
				}`,
		}, {
			in:  "newClient",
			old: `return &Client{c}, nil`,
			new: `return &Client{c, opts.Auth}, nil`,
		}, {
			in:  "Client.Format",
			old: `fmt.Fprintf(f, "zkrecipes.Client(%s)", c.servers())`,
			new: `fmt.Fprint(f, *c)`,
		}},
		test: "env ZK_HARNESS=zktest go test -run NoSecret .",
	},
	{
		name: "identity-sha1",
		what: "The library's own identity ignores the servers' digest algorithm.",
		edits: []edit{{
			in:  "New",
			old: `s.owned = OwnedACL(cfg.ACL, cfg.Digest, cfg.Identities)`,
			new: `s.owned = OwnedACL(cfg.ACL, 0, cfg.Identities)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run TestRealWithTheServers",
	},
	{
		name: "ids-unchecked",
		what: "Znodes are created for digest ids by which the server does not know the client.",
		edits: []edit{{
			in:  "Session.runIDProbe",
			old: `return ErrUnknownIDs`,
			new: `return nil`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run TestRealAWrong",
	},
	{
		name: "opens-up-any-znode",
		what: "A session that may not write a znode gives it another ACL, whatever list it bears.",
		edits: []edit{{
			in:  "Session.OpenUp",
			old: `case s.owned == nil || !slices.Equal(acl, s.owned):`,
			new: `case s.owned == nil:`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestAnotherZnode",
	},
	{
		name: "seal-of-any-line",
		what: "A seal is believed although the line was made anew, or its ACL changed.",
		edits: []edit{{
			in:  "Sealed",
			old: `if stat.Aversion != 0 || seal != own && seal != SealOf(s.ACL(), 0) {`,
			new: `if seal == "" {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestAnACLThatChanged",
	},
}
