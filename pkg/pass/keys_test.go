package pass

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKeyListsThatAreRead(t *testing.T) {
	odd := []byte("\xff\xfe\xfb012345678901234567890123456789!") // 34 bytes: '+', '/' and padding in base64
	want, err := mustKeys(t, pair("a", odd)).SignReceipt(aReceipt())
	require.NoError(t, err)
	for name, encoded := range map[string]string{
		"standard":           base64.StdEncoding.EncodeToString(odd),
		"standard, unpadded": base64.RawStdEncoding.EncodeToString(odd),
		"URL":                base64.URLEncoding.EncodeToString(odd),
		"URL, unpadded":      base64.RawURLEncoding.EncodeToString(odd),
	} {
		got, err := mustKeys(t, " a:"+encoded+" \n").SignReceipt(aReceipt())
		require.NoError(t, err)
		assert.Equal(t, want, got, name)
	}
	assert.Equal(t, []string{"2026-01.b", "A_9"}, mustKeys(t, "2026-01.b:"+b64(keyA)+" ,\n A_9:"+b64(keyB)).IDs())
}

func TestKeyListsThatAreRefused(t *testing.T) {
	good := b64(keyA)
	for name, c := range map[string]struct{ list, want string }{
		"empty":               {"", "no key given"},
		"blank":               {" \n", "no key given"},
		"bare key":            {good, "key 1: not kid:base64"},
		"comma behind":        {"a:" + good + ",", "key 2: not kid:base64"},
		"no kid":              {":" + good, "a kid is"},
		"kid too long":        {strings.Repeat("k", 33) + ":" + good, "a kid is"},
		"kid a path":          {"a/b:" + good, "a kid is"},
		"kid up":              {"..:" + good, "a kid is"},
		"kid up inside":       {"a..b:" + good, "a kid is"},
		"kid hidden":          {".a:" + good, "a kid is"},
		"kid not ASCII":       {"ä:" + good, "a kid is"},
		"kid with a space":    {"a :" + good, "a kid is"},
		"kid twice":           {"a:" + good + ",a:" + b64(keyB), "key 2: has the kid of key 1"},
		"key twice":           {"a:" + good + ",b:" + good, "key 2: is the same as key 1"},
		"no key":              {"a:", "has 32 to 1024 bytes, not 0"},
		"key short":           {"a:" + b64(keyA[:31]), "has 32 to 1024 bytes, not 31"},
		"key long":            {"a:" + b64(make([]byte, 1025)), "has 32 to 1024 bytes, not 1025"},
		"not base64":          {"a:!" + good, "is not base64"},
		"two alphabets":       {"a:+_" + good, "is not base64"},
		"line end inside":     {"a:" + good[:4] + "\n" + good[4:], "is not base64"},
		"another spelling":    {"a:" + good[:42] + "3", "is not base64"},
		"half padded":         {"a:" + b64(make([]byte, 34)) + "=", "is not base64"},
		"too many":            {strings.Repeat("a:"+good+",", 17), "at most 16 keys"},
		"two colons":          {"a:b:" + good, "is not base64"},
		"hex instead":         {"a:" + fmt.Sprintf("%x", keyA[:16]), "has 32 to 1024 bytes, not 24"},
		"password in its way": {"correct-horse-battery-staple", "key 1: not kid:base64"},
	} {
		for _, parse := range []func(string) error{
			func(s string) error { _, err := ParseKeys(s); return err },
			func(s string) error { _, err := ParseSiteKeys(s); return err },
		} {
			err := parse(c.list)
			if assert.ErrorContains(t, err, c.want, name) {
				for _, secret := range []string{good, good[:8], b64(keyB)[:8], "horse"} {
					assert.NotContains(t, err.Error(), secret, name)
				}
			}
		}
	}
}

func TestAllMistakesOfAKeyListAtOnce(t *testing.T) {
	_, err := ParseKeys("../x:" + b64(keyA) + ",b:c2hvcnQ,nothing")
	require.Error(t, err)
	for _, want := range []string{"key 1: a kid is", "key 2: has 32", "key 3: not kid:base64"} {
		assert.ErrorContains(t, err, want)
	}
}

func TestGeneratedKeysAreFreshAndParse(t *testing.T) {
	one, err := GenerateKeys()
	require.NoError(t, err)
	two, err := GenerateKeys()
	require.NoError(t, err)
	k := mustKeys(t, one+","+two)
	assert.Len(t, k.IDs(), 2)
	assert.Regexp(t, `^k[0-9a-f]{8}$`, k.IDs()[0])
}

func TestKeysDoNotPrintThemselves(t *testing.T) {
	k, site := mustKeys(t, pair("a", keyA)), mustSite(t, pair("s", keyB))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		assert.Equal(t, "pass.Keys(a)", fmt.Sprintf(verb, k))
		assert.Equal(t, "pass.Keys(a)", fmt.Sprintf(verb, *k))
		assert.Equal(t, "pass.SiteKeys(s)", fmt.Sprintf(verb, site))
		assert.Contains(t, fmt.Sprintf(verb, struct{ K *Keys }{k}), "pass.Keys(a)}")
	}
	k.IDs()[0] = "changed"
	assert.Equal(t, []string{"a"}, k.IDs())
}
