package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseNamesTheTestThatFailed(t *testing.T) {
	for name, tt := range map[string]struct {
		out  string
		want outcome
		by   string
	}{
		"passed": {
			"=== RUN   TestA\n    a_test.go:3: a note\n--- PASS: TestA (0.00s)\nPASS\nok  \tx\t0.1s\n",
			outcome{ran: []string{"TestA"}}, "(no single test)",
		},
		"one, after one that logs": {
			"=== RUN   TestA\n    a_test.go:3: a note\n--- PASS: TestA (0.00s)\n" +
				"=== RUN   TestB\n    a_test.go:9: seed 385: waits for ever:\n--- FAIL: TestB (1.00s)\nFAIL\n",
			outcome{[]string{"TestA", "TestB"}, []string{"TestB"}, "385", "a_test.go:9: seed 385: waits for ever:"}, "TestB",
		},
		"a test in a test": {
			"=== RUN   TestA\n=== RUN   TestA/x_y\n    a_test.go:7: no\n=== RUN   TestA/z\n--- FAIL: TestA (0.00s)\n" +
				"    --- FAIL: TestA/x_y (0.00s)\n    --- PASS: TestA/z (0.00s)\nFAIL\n",
			outcome{[]string{"TestA"}, []string{"TestA"}, "", "a_test.go:7: no"}, "TestA",
		},
		"parallel ones": {
			"=== RUN   TestA\n=== PAUSE TestA\n=== RUN   TestB\n=== PAUSE TestB\n=== CONT  TestA\n=== CONT  TestB\n" +
				"    a_test.go:7: b\n=== NAME  TestA\n    a_test.go:5: a\n--- FAIL: TestA (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL\n",
			outcome{[]string{"TestA", "TestB"}, []string{"TestA", "TestB"}, "", "a_test.go:5: a"}, "TestA and 1 more",
		},
		"a panic": {
			"=== RUN   TestA\n--- FAIL: TestA (0.00s)\npanic: no [recovered]\n\ngoroutine 1 [running]:\nx_test.go:3 +0x1\n",
			outcome{[]string{"TestA"}, []string{"TestA"}, "", "panic: no [recovered]"}, "TestA",
		},
		"a panic of another goroutine": {
			"=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\npanic: no\n\ngoroutine 1 [running]:\nFAIL\tx\t0.1s\n",
			outcome{[]string{"TestA", "TestB"}, []string{"TestB"}, "", "panic: no"}, "TestB",
		},
		"goroutines left behind": {
			"=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\nfound unexpected goroutines:\nFAIL\tx\t0.1s\n",
			outcome{ran: []string{"TestA"}}, "(no single test)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := parse([]byte(tt.out))
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.by, got.by())
		})
	}
}
