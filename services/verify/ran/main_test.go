package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const aRun = `go vet work
{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: said by A\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:1: nginx is not installed\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`

const aFailure = `{"Action":"output","Package":"q","Test":"TestC","Output":"=== RUN   TestC\n"}
{"Action":"output","Package":"q","Test":"TestC","Output":"    c_test.go:1: it is broken\n"}
{"Action":"output","Package":"q","Test":"TestC","Output":"--- FAIL: TestC (0.00s)\n"}
{"Action":"fail","Package":"q","Test":"TestC"}
{"Action":"output","Package":"q","Output":"FAIL\n"}
{"Action":"fail","Package":"q"}
`

func TestARunIsShownAsGoTestDoes(t *testing.T) {
	var out bytes.Buffer
	f, err := read(strings.NewReader(aRun+aFailure), &out, false)
	require.NoError(t, err)
	require.Equal(t, "go vet work\nok  \tp\t0.1s\nFAIL\n    c_test.go:1: it is broken\n--- FAIL: TestC (0.00s)\n", out.String())
	require.Equal(t, fates{map[string]bool{"p TestA": true}, map[string]string{"p TestB": "b_test.go:1: nginx is not installed"}}, f)
	out.Reset()
	_, err = read(strings.NewReader(aRun), &out, true)
	require.NoError(t, err)
	require.Contains(t, out.String(), "said by A")
}

func TestASkipIsAFailureUnlessItRanElsewhere(t *testing.T) {
	f, err := read(strings.NewReader(aRun), &bytes.Buffer{}, false)
	require.NoError(t, err)
	var out bytes.Buffer
	require.ErrorContains(t, judge([]fates{f}, &out), "1 tests were skipped")
	require.Contains(t, out.String(), "p TestB was skipped, and has run nowhere: b_test.go:1: nginx is not installed")
	elsewhere := fates{Passed: map[string]bool{"p TestB": true}}
	require.NoError(t, judge([]fates{f, elsewhere}, &out))

	f, err = read(strings.NewReader(`{"Action":"output","Package":"p","Test":"TestN","Output":"        ℹ skipped 2\n"}
{"Action":"pass","Package":"p","Test":"TestN"}
`), &bytes.Buffer{}, false)
	require.NoError(t, err)
	require.ErrorContains(t, judge([]fates{f}, &out), "1 tests were skipped", "node's tests inside of Go's")
	require.Error(t, judge([]fates{newFates()}, &out), "nothing has run")
}
