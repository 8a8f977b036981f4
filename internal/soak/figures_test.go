package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/judge"
)

func TestARunInWhichARecipeWasHardlyUsedProvesNothing(t *testing.T) {
	s := &soak{options: options{minutes: 1}, start: time.Now()}
	s.court = newCourt(s.start, judge.Config{Timeout: time.Second})
	verdict := func() error {
		s.court.do(func(j *judge.Judge) { j.JudgeUntil(s.now()) })
		return s.verdict()
	}
	require.ErrorIs(t, verdict(), errIdle)
	grant := func(keys []string, n int) {
		for _, key := range keys {
			for range n {
				s.court.take(judge.Event{Kind: judge.Granted, Key: key})
			}
		}
	}
	grant(servedKeys(), leastPerMinute)
	grant(servedKeys()[1:], 1)
	err := verdict()
	require.ErrorIs(t, err, errIdle)
	require.ErrorContains(t, err, "of "+servedKeys()[0])
	require.NotContains(t, err.Error(), servedKeys()[1])
	grant(servedKeys()[:1], 1)
	require.NoError(t, verdict())
	s.court.do(func(j *judge.Judge) { j.Accuse(0, "process", "", "ended") })
	require.ErrorIs(t, verdict(), errViolated)
}
