package main

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

//go:embed peers/CuratorMember.java
var curatorMember []byte

// Members by Curator's GroupMember and by zkrecipes.Group on one path see each other come, change
// their data and leave.
func TestCuratorsGroupMembersAreInTheSameGroup(t *testing.T) {
	ctx := quick(t)
	lab := testLab(t, ctx)
	command, err := javaCommand(ctx, t.TempDir(), "CuratorMember", curatorMember)
	if err != nil {
		t.Skip(err)
	}
	path := fmt.Sprintf("/bench/group-%d", time.Now().UnixNano())
	group := zkrecipes.NewGroup(recipetest.DialTo(t, lab.servers, nil), path)
	seen := recipetest.Yields(t, group.Watch, func(members []zkrecipes.Member) string {
		var texts []string
		for _, m := range members {
			texts = append(texts, m.ID+"="+string(m.Data))
		}
		return strings.Join(texts, " ")
	})

	java, about, err := startWorker(ctx, append(command, lab.servers[0], path, "java", "1"))
	require.NoError(t, err)
	t.Cleanup(java.end)
	t.Logf("Curator %s on %s", about, lab.kind)
	asks := func(want, format string, args ...any) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			got, err := java.ask(ctx, format, args...)
			require.NoError(c, err)
			require.Equal(c, want, got)
		}, time.Minute, 50*time.Millisecond)
	}
	seen("java=1")
	member, err := group.Join(ctx, []byte("2"), zkrecipes.MemberID("go"))
	require.NoError(t, err)
	empty, err := group.Join(ctx, nil, zkrecipes.MemberID("go-empty"))
	require.NoError(t, err)
	seen("go=2 go-empty= java=1")
	asks("go=2 go-empty= java=1", "members")
	asks("", "set 3")
	require.NoError(t, member.Update(ctx, []byte("4")))
	seen("go=4 go-empty= java=3")
	asks("go=4 go-empty= java=3", "members")
	require.NoError(t, empty.Leave())
	asks("go=4 java=3", "members")
	asks("", "leave")
	seen("go=4")
	require.NoError(t, member.Leave())
	seen("")
}
