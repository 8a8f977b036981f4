package main

// aclMutants are about which ACL a znode gets, and about credentials.
var aclMutants = []mutant{
	{
		name: "acl-of-the-line-ignored",
		what: "A place in another library's line does not bear that line's list.",
		edits: []edit{{
			in:  "Line.Entry",
			old: `state.ForPlaces(s.Session)`,
			new: `s.ACL()`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestAPlaceInALineOfAnotherLibrarysBearsItsList$",
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
