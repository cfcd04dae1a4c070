package position

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Whoever mistrusts us runs the program that the documents print, so it is that one that is run here, and not a copy.
func TestTheProgramInTheDocumentsReckonsTheDraw(t *testing.T) {
	text, err := os.ReadFile("../../docs/guarantees.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "```python\n")
	require.True(t, ok, "the program is gone")
	program, _, ok := strings.Cut(rest, "```")
	require.True(t, ok)
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not on the PATH")
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int64{1, 2, 3, 4, 5, 99, 100, 101, 1_000_000, 1<<52 + 7} {
		d := queue.Draw{From: queue.Ticket(random.Int64N(1 << 40))}
		d.At = d.From + queue.Ticket(size)
		for i := range d.Seed {
			d.Seed[i] = byte(random.UintN(256))
		}
		arguments := []string{"-c", program, "main", d.Seed.String(), fmt.Sprint(d.From + 1), fmt.Sprint(d.At)}
		want := []string{"commitment " + queue.Commitment("main", d.Seed)}
		for i := range int64(40) {
			ticket := d.From + queue.Ticket(i) // the one before the first, and some that come after the last where they are few
			if size > 100 && i > 0 {
				ticket = d.From + 1 + queue.Ticket(random.Int64N(size))
			}
			arguments = append(arguments, strconv.FormatInt(int64(ticket), 10))
			want = append(want, fmt.Sprintf("%d %d", ticket, d.Number(ticket)))
		}
		out, err := exec.Command(python, arguments...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, want, strings.Split(strings.TrimSpace(string(out)), "\n"), "%d tickets", size)
	}
}
