package pass

import (
	"crypto/hmac"
	"crypto/sha512"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A signed token in the hands of the forger, spoiled in one way. Fault 19.
type forgery struct {
	name  string
	token string
}

// forgeries spoils a good token of any kind. typ and aud are those of the kind; key is what the kind verifies with.
func forgeries(header, body, typ string, key []byte) []forgery {
	good := forge(header, body, key)
	h, rest, _ := strings.Cut(good, ".")
	p, sig, _ := strings.Cut(rest, ".")
	with := func(old, new string) string {
		if !strings.Contains(header, old) {
			panic("the header has no " + old)
		}
		return forge(strings.Replace(header, old, new, 1), body, key)
	}
	bodyWith := func(old, new string) string {
		if !strings.Contains(body, old) {
			panic("the body has no " + old)
		}
		return forge(header, strings.Replace(body, old, new, 1), key)
	}
	// One byte more than a multiple of three leaves four bits of the last character unused.
	loose := func(s string) string { return b64([]byte(s + strings.Repeat(" ", (4-len(s)%3)%3))) }
	sha512ed := func() string {
		text := b64([]byte(strings.Replace(header, "HS256", "HS512", 1))) + "." + p
		m := hmac.New(sha512.New, key)
		m.Write([]byte(text))
		return text + "." + b64(m.Sum(nil))
	}
	last := func(s string, flip byte) string { // another last character that decodes to the same bytes
		const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		i := strings.IndexByte(alphabet, s[len(s)-1])
		return s[:len(s)-1] + string(alphabet[i^int(flip)])
	}
	kid, alg := `"kid":"a"`, `"alg":"HS256"`
	return []forgery{
		{"empty", ""},
		{"dots", ".."},
		{"one part", h},
		{"two parts", h + "." + p},
		{"no signature", h + "." + p + "."},
		{"four parts", good + ".x"},
		{"dot behind", good + "."},
		{"space behind", good + " "},
		{"line end behind", good + "\n"},
		{"line end inside", h + "." + p[:4] + "\n" + p[4:] + "." + sig},
		{"line end inside, signed", seal(h+"."+p[:4]+"\r\n"+p[4:], key)},
		{"line end in the header, signed", seal(h[:4]+"\n"+h[4:]+"."+p, key)},
		{"space in front", " " + good},
		{"NUL behind", good + "\x00"},
		{"padded", h + "." + p + "." + sig + "="},
		{"payload padded, signed", seal(h+"."+b64([]byte(body + " "))[:4]+"=."+p, key)},
		{"signature spelt differently", last(good, 1)},
		{"header spelt differently, signed", seal(last(loose(header), 1)+"."+p, key)},
		{"payload spelt differently, signed", seal(h+"."+last(loose(body), 1), key)},
		{"signature cut", good[:len(good)-1]},
		{"signature in the standard alphabet", strings.NewReplacer("-", "+", "_", "/").Replace(good[:len(good)-1]) + "+"},
		{"signature of zeroes", h + "." + p + "." + strings.Repeat("A", 43)},
		{"payload changed", forge(header, body, keyB)},
		{"signed with an empty key", forge(header, body, nil)},
		{"signed with a short key", forge(header, body, []byte("a"))},
		{"too long", forge(header, strings.Replace(body, "{", "{"+strings.Repeat(" ", 1600), 1), key)},

		{"alg none", with(alg, `"alg":"none"`)},
		{"alg none, unsigned", b64([]byte(strings.Replace(header, "HS256", "none", 1))) + "." + p + "."},
		{"alg None", with(alg, `"alg":"None"`)},
		{"alg lower", with(alg, `"alg":"hs256"`)},
		{"alg HS384", with(alg, `"alg":"HS384"`)},
		{"alg HS512, signed so", sha512ed()},
		{"alg RS256", with(alg, `"alg":"RS256"`)},
		{"alg unknown", with(alg, `"alg":"XX"`)},
		{"alg missing", with(alg+",", ``)},
		{"alg empty", with(alg, `"alg":""`)},
		{"alg null", with(alg, `"alg":null`)},
		{"alg a list", with(alg, `"alg":["HS256"]`)},
		{"alg in capitals", with(alg, `"ALG":"HS256"`)},
		{"alg twice", with(alg, `"alg":"none",`+alg)},
		{"alg twice, once escaped", with(alg, `"\u0061lg":"none",`+alg)},
		{"kid missing", with(","+kid, ``)},
		{"kid empty", with(kid, `"kid":""`)},
		{"kid null", with(kid, `"kid":null`)},
		{"kid a number", with(kid, `"kid":1`)},
		{"kid unknown", with(kid, `"kid":"z"`)},
		{"kid of another key", with(kid, `"kid":"b"`)},
		{"kid twice", with(kid, `"kid":"z",`+kid)},
		{"kid in capitals", with(kid, `"KID":"a"`)},
		{"kid a path", with(kid, `"kid":"../../dev/null"`)},
		{"kid a path to itself", with(kid, `"kid":"./a"`)},
		{"kid with NUL", with(kid, `"kid":"a\u0000"`)},
		{"kid a query", with(kid, `"kid":"a' OR '1'='1"`)},
		{"kid not UTF-8", with(kid, "\"kid\":\"a\xff\"")},
		{"typ another", with(typ, `soonbeon-other+jwt`)},
		{"typ a number", with(`"`+typ+`"`, `1`)},
		{"typ twice", with(`"typ"`, `"typ":"x","typ"`)},
		{"crit", with(alg, `"crit":["exp"],`+alg)},
		{"crit empty", with(alg, `"crit":[],`+alg)},
		{"crit null", with(alg, `"crit":null,`+alg)},
		{"header null", forge(`null`, body, key)},
		{"header a list", forge(`[`+header+`]`, body, key)},
		{"header a text", forge(`"x"`, body, key)},
		{"header empty", seal("."+p, key)},
		{"header with more behind", forge(header+"{}", body, key)},
		{"header cut", forge(header[:len(header)-1], body, key)},

		{"payload null", forge(header, `null`, key)},
		{"payload a list", forge(header, `[`+body+`]`, key)},
		{"payload empty", forge(header, ``, key)},
		{"payload without claims", forge(header, `{}`, key)},
		{"payload with more behind", forge(header, body+"{}", key)},
		{"payload cut", forge(header, body[:len(body)-1], key)},
		{"payload not UTF-8", bodyWith(`"sub":"`, "\"sub\":\"\xff")},
		{"sub twice", bodyWith(`"sub"`, `"sub":"other","sub"`)},
		{"sub twice, once escaped", bodyWith(`"sub"`, `"\u0073ub":"other","sub"`)},
		{"sub in capitals", bodyWith(`"sub"`, `"SUB"`)},
		{"sub empty", bodyWith(`"sub":"`, `"sub":"","x":"`)},
		{"sub null", bodyWith(`"sub":"`, `"sub":null,"x":"`)},
		{"sub a number", bodyWith(`"sub":"`, `"sub":1,"x":"`)},
		{"sub too long", bodyWith(`"sub":"`, `"sub":"`+strings.Repeat("x", 129))},
		{"sub with a line end", bodyWith(`"sub":"`, `"sub":"\r\n`)},
		{"sub half a pair", bodyWith(`"sub":"`, `"sub":"\ud800`)},
		{"aud another", bodyWith(`"aud":"soonbeon`, `"aud":"elsewhere`)},
		{"aud empty", bodyWith(`"aud":"`, `"aud":"","x":"`)},
		{"aud a number", bodyWith(`"aud":"`, `"aud":1,"x":"`)},
		{"aud twice", bodyWith(`"aud"`, `"aud":"soonbeon","aud"`)},
		{"iat a text", bodyWith(`"iat":`, `"iat":"1764471234","x":`)},
		{"iat negative", bodyWith(`"iat":`, `"iat":-`)},
		{"iat with an exponent", bodyWith(`"iat":`, `"iat":1e9,"x":`)},
		{"iat null", bodyWith(`"iat":`, `"iat":null,"x":`)},
		{"iat in milliseconds", bodyWith(`"iat":1764471234`, `"iat":1764471234567`)},
		{"iat twice", bodyWith(`"iat":`, `"iat":1,"iat":`)},
	}
}

func refuse(t *testing.T, all []forgery, verify func(string) error) {
	for _, f := range all {
		err := verify(f.token)
		if assert.ErrorIs(t, err, ErrInvalid, f.name) {
			for _, part := range strings.Split(f.token, ".") {
				if len(part) > 8 {
					assert.NotContains(t, err.Error(), part[:8], f.name)
				}
			}
		}
	}
}

// Were the spoiled text not what is wrong with these, the forgeries would prove nothing.
func TestTheForgersTokensWouldBeGood(t *testing.T) {
	k := mustKeys(t, pair("a", keyA))
	for _, spaces := range []string{"", " ", "  ", "   "} {
		_, err := k.VerifyReceipt(forge(receiptHeader, receiptBody+spaces, receiptKey(t)), "main")
		require.NoError(t, err)
		_, err = k.VerifyReceipt(forge(receiptHeader+spaces, receiptBody, receiptKey(t)), "main")
		require.NoError(t, err, "by the long path")
	}
}

func TestFault19ForgedReceipts(t *testing.T) {
	k := mustKeys(t, list(pair("a", keyA), pair("b", keyB)))
	verify := func(s string) error { _, err := k.VerifyReceipt(s, "main"); return err }
	require.NoError(t, verify(forge(receiptHeader, receiptBody, receiptKey(t))))
	refuse(t, forgeries(receiptHeader, receiptBody, "soonbeon-receipt+jwt", receiptKey(t)), verify)

	with := func(old, new string) string {
		require.Contains(t, receiptBody, old)
		return forge(receiptHeader, strings.Replace(receiptBody, old, new, 1), receiptKey(t))
	}
	entry, err := k.SignEntry(anEntry())
	require.NoError(t, err)
	refuse(t, []forgery{
		{"an entry token", entry},
		{"an entry token's body", forge(receiptHeader, entryBody, receiptKey(t))},
		{"an entry token's header", forge(entryHeader, receiptBody, receiptKey(t))},
		{"an entry token's key", forge(receiptHeader, receiptBody, entryKey(t))},
		{"the master key", forge(receiptHeader, receiptBody, keyA)},
		{"typ JWT", forge(strings.Replace(receiptHeader, "soonbeon-receipt+jwt", "JWT", 1), receiptBody, receiptKey(t))},
		{"typ missing", forge(`{"alg":"HS256","kid":"a"}`, receiptBody, receiptKey(t))},
		{"the gate's audience", with("soonbeon:receipt:", "soonbeon:gate:")},
		{"audience of no queue", with("soonbeon:receipt:main", "soonbeon:receipt:")},
		{"audience of a bad queue", with("soonbeon:receipt:main", "soonbeon:receipt:Main")},
		{"audience a list", with(`"soonbeon:receipt:main"`, `["soonbeon:receipt:main"]`)},
		{"no ticket", with(`"ticket":7,`, ``)},
		{"ticket 0", with(`"ticket":7`, `"ticket":0`)},
		{"ticket negative", with(`"ticket":7`, `"ticket":-7`)},
		{"ticket a text", with(`"ticket":7`, `"ticket":"7"`)},
		{"ticket a fraction", with(`"ticket":7`, `"ticket":7.5`)},
		{"ticket too big", with(`"ticket":7`, `"ticket":9223372036854775808`)},
		{"ticket twice", with(`"ticket":7`, `"ticket":1,"ticket":7`)},
		{"ahead negative", with(`"ahead":3`, `"ahead":-1`)},
		{"ahead a text", with(`"ahead":3`, `"ahead":"3"`)},
		{"made negative", with(`"made":5`, `"made":-5`)},
		{"made a text", with(`"made":5`, `"made":"5"`)},
		{"made twice", with(`"made":5`, `"made":4,"made":5`)},
		{"made twice, the other first", with(`"aud"`, `"made":4,"aud"`)},
		{"sure a number", with(`"sure":true`, `"sure":1`)},
		{"sure a text", with(`"sure":true`, `"sure":"true"`)},
		{"sure twice", with(`"sure":true`, `"sure":false,"sure":true`)},
		{"sure with more", with(`"sure":true`, `"sure":trueish`)},
		{"drawn negative", with(`"drawn":9`, `"drawn":-9`)},
		{"drawn a fraction", with(`"drawn":9`, `"drawn":9.5`)},
		{"drawn twice", with(`"drawn":9`, `"drawn":8,"drawn":9`)},
		{"no iat", with(`"iat":1764471234.567,`, ``)},
	}, verify)

	other := with("soonbeon:receipt:main", "soonbeon:receipt:other")
	err = verify(other)
	assert.ErrorIs(t, err, ErrOtherQueue)
	assert.NotErrorIs(t, err, ErrInvalid)
	_, err = k.VerifyReceipt(other, "other")
	assert.NoError(t, err)
	_, err = k.VerifyReceipt(other, "")
	assert.ErrorIs(t, err, ErrOtherQueue)
}

func TestFault19ForgedEntryTokens(t *testing.T) {
	k := mustKeys(t, list(pair("a", keyA), pair("b", keyB)))
	verify := func(s string) error { _, err := k.VerifyEntry(s, "main", during); return err }
	require.NoError(t, verify(forge(entryHeader, entryBody, entryKey(t))))
	refuse(t, forgeries(entryHeader, entryBody, "soonbeon-entry+jwt", entryKey(t)), verify)

	with := func(old, new string) string {
		require.Contains(t, entryBody, old)
		return forge(entryHeader, strings.Replace(entryBody, old, new, 1), entryKey(t))
	}
	receipt, err := k.SignReceipt(aReceipt())
	require.NoError(t, err)
	refuse(t, []forgery{
		{"a receipt", receipt},
		{"a receipt's body", forge(entryHeader, receiptBody, entryKey(t))},
		{"a receipt's header", forge(receiptHeader, entryBody, entryKey(t))},
		{"a receipt's key", forge(entryHeader, entryBody, receiptKey(t))},
		{"the receipt's audience", with("soonbeon:gate:", "soonbeon:receipt:")},
		{"typ JWT", forge(strings.Replace(entryHeader, "soonbeon-entry+jwt", "JWT", 1), entryBody, entryKey(t))},
		{"typ missing", forge(`{"alg":"HS256","kid":"a"}`, entryBody, entryKey(t))},
		{"no exp", with(`,"exp":1764471534.000`, ``)},
		{"exp null", with(`"exp":1764471534.000`, `"exp":null`)},
		{"exp a text", with(`"exp":1764471534.000`, `"exp":"1764471534"`)},
		{"exp before iat", with(`"exp":1764471534.000`, `"exp":1764471233`)},
		{"exp twice", with(`"exp"`, `"exp":1,"exp"`)},
		{"no iat", with(`"iat":1764471234.000,`, ``)},
		{"no jti", with(`"jti":"main/7",`, ``)},
		{"jti of another queue", with(`main/7`, `other/7`)},
		{"jti without ticket", with(`main/7`, `main/`)},
		{"jti ticket 0", with(`main/7`, `main/0`)},
		{"jti ticket spelt differently", with(`main/7`, `main/07`)},
		{"jti ticket signed", with(`main/7`, `main/+7`)},
		{"jti longer", with(`main/7`, `main/7/7`)},
		{"jti a number", with(`"main/7"`, `7`)},
		{"made negative", with(`"made":5`, `"made":-5`)},
		{"made a text", with(`"made":5`, `"made":"5"`)},
		{"made twice", with(`"made":5`, `"made":4,"made":5`)},
	}, verify)

	late := strings.NewReplacer("gate:main", "gate:other", "main/7", "other/7")
	err = verify(forge(entryHeader, late.Replace(entryBody), entryKey(t)))
	assert.ErrorIs(t, err, ErrOtherQueue)
	assert.NotErrorIs(t, err, ErrInvalid)
}

func TestFault19ForgedIdentities(t *testing.T) {
	k := mustSite(t, list(pair("a", keyA), pair("b", keyB)))
	verify := func(s string) error { _, err := k.VerifyIdentity(s, during); return err }
	require.NoError(t, verify(forge(siteHeader, siteBody, keyA)))
	refuse(t, forgeries(siteHeader, siteBody, "JWT", keyA), verify)

	with := func(old, new string) string {
		require.Contains(t, siteBody, old)
		return forge(siteHeader, strings.Replace(siteBody, old, new, 1), keyA)
	}
	ours := mustKeys(t, pair("a", keyA))
	receipt, err := ours.SignReceipt(aReceipt())
	require.NoError(t, err)
	entry, err := ours.SignEntry(anEntry())
	require.NoError(t, err)
	refuse(t, []forgery{
		{"a receipt, one key for both", receipt},
		{"an entry token, one key for both", entry},
		{"a receipt signed by the site", forge(receiptHeader, receiptBody, keyA)},
		{"an entry token signed by the site", forge(entryHeader, entryBody, keyA)},
		{"no exp", with(`,"exp":1764471534`, ``)},
		{"no exp and no iat", forge(siteHeader, `{"sub":"user-1"}`, keyA)},
		{"aud of another service", with(`"soonbeon"`, `"shop"`)},
		{"aud of other services", with(`"soonbeon"`, `["shop","mail"]`)},
		{"aud of nobody", with(`"soonbeon"`, `[]`)},
		{"aud null", with(`"soonbeon"`, `null`)},
		{"aud a prefix", with(`"soonbeon"`, `"soonbeon:gate:main"`)},
		{"aud deep", with(`"soonbeon"`, `[["soonbeon"]]`)},
	}, verify)
	_, err = ours.VerifyReceipt(forge(siteHeader, siteBody, keyA), "main")
	assert.ErrorIs(t, err, ErrInvalid, "an identity is no receipt")
}
