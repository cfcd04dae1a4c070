package gate

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
)

// page writes the few pages of the gate's own: where a token is handed over, and why somebody is not in. They load nothing.
type page struct {
	template *template.Template
	policy   string // Content-Security-Policy
}

// view is what a page shows.
type view struct {
	Text   words
	Link   string // to the waiting room; "" for none
	Retry  bool   // a link that loads the same address again
	Script bool   // take the token from the fragment and post it
	Token  string // to post again
	To     string
}

// words are said in English and in Korean.
type words struct{ en, ko [2]string } // a title and a sentence

var (
	arriving = words{
		[2]string{"One moment …", "You are being let in."},
		[2]string{"잠시만 기다려 주세요 …", "입장하는 중입니다."},
	}
	invalid = words{
		[2]string{"This pass can't be used here", "It was not issued for this site, or it was changed on the way. Go to the line to get in."},
		[2]string{"이 입장권은 사용할 수 없습니다", "이 사이트의 입장권이 아니거나 전달 중에 변경되었습니다. 대기열에서 다시 입장해 주세요."},
	}
	expired = words{
		[2]string{"Your time to go in is over", "The pass was valid for a while only. You can enter the line again."},
		[2]string{"입장 가능 시간이 지났습니다", "입장권의 유효 시간이 끝났습니다. 대기열에 다시 들어갈 수 있습니다."},
	}
	earlier = words{
		[2]string{"This pass is of an earlier line", "That line has ended, and there is a new one. Go to the line to get in."},
		[2]string{"이전 대기열의 입장권입니다", "그 대기열은 종료되었고 새 대기열이 열렸습니다. 대기열에서 다시 입장해 주세요."},
	}
	notYet = words{
		[2]string{"Not quite yet", "The clocks of this site and of the line are apart. Go back to the line and try again in a minute."},
		[2]string{"아직 입장할 수 없습니다", "사이트와 대기열의 시계가 서로 다릅니다. 1분 뒤에 대기열로 돌아가 다시 시도해 주세요."},
	}
	used = words{
		[2]string{"This pass was used already", "A pass lets one browser in, once. Go on in the browser where it was used, or enter the line again."},
		[2]string{"이미 사용한 입장권입니다", "입장권은 한 브라우저에서 한 번만 쓸 수 있습니다. 사용한 브라우저에서 계속하거나 대기열에 다시 들어가 주세요."},
	}
	cantTell = words{
		[2]string{"One more moment, please", "Your pass can't be checked just now. It stays valid: please try again in a few seconds."},
		[2]string{"조금만 더 기다려 주세요", "지금은 입장권을 확인할 수 없습니다. 입장권은 그대로 유효하니 몇 초 뒤에 다시 시도해 주세요."},
	}
	noCookie = words{
		[2]string{"Cookies are needed", "Your browser did not keep the cookie that lets you in. Allow cookies for this site, then go back to the line: your turn is kept while your pass is valid."},
		[2]string{"쿠키를 허용해 주세요", "입장에 필요한 쿠키가 저장되지 않았습니다. 이 사이트의 쿠키를 허용한 뒤 대기열로 돌아가 주세요. 입장권이 유효한 동안 차례는 유지됩니다."},
	}
	sentLate = words{
		[2]string{"You have to be let in first", "This was not sent: it takes a pass, and yours is missing or its time is over. Go to the line to get in."},
		[2]string{"먼저 입장해야 합니다", "입장권이 없거나 유효 시간이 지나 요청이 전송되지 않았습니다. 대기열에서 입장해 주세요."},
	}
	malformed = words{
		[2]string{"There is nothing here", "This address takes in those whose turn it is, and something is missing. Go to the line to get in."},
		[2]string{"잘못된 접근입니다", "차례가 된 분을 안내하는 주소인데 필요한 정보가 없습니다. 대기열에서 입장해 주세요."},
	}
	labels = map[string][2]string{
		"line":  {"Go to the line", "대기열로 가기"},
		"again": {"Try again", "다시 시도"},
		"noJS":  {"This step needs JavaScript. Go back to the line and use its button to go in.", "이 단계에는 JavaScript가 필요합니다. 대기열로 돌아가 입장 버튼을 눌러 주세요."},
	}
)

const style = `body{font:1.1rem/1.6 system-ui,sans-serif;word-break:keep-all;max-width:32rem;margin:15vh auto 0;padding:0 1.5rem}` +
	`h1{font-size:1.6rem;line-height:1.3}a,button{font:inherit}button{padding:.5rem 1.2rem}` +
	`:root{color-scheme:light dark}`

// script runs once, while the page is being read, so that the address with the token does not become an entry of the history.
const script = `(function(){` +
	`var p=new URLSearchParams(location.hash.slice(1)),t=p.get("token"),f=document.forms[0];` +
	`history.replaceState(null,"",location.pathname);` +
	`if(!t){document.getElementById("none").hidden=false;document.getElementById("go").hidden=true;return}` +
	`f.elements.token.value=t;f.elements.to.value=p.get("to")||"/";f.submit()})()`

const layout = `<!doctype html>
<html lang="{{.Lang}}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="robots" content="noindex">
<title>{{.Title}}</title><style>` + style + `</style></head><body><main>
<div id="go"><h1>{{.Title}}</h1><p>{{.Sentence}}</p></div>
{{- if .View.Script}}
<div id="none" hidden><h1>{{.None}}</h1><p><a href="{{.View.Link}}">{{.Line}}</a></p></div>
<noscript><p>{{.NoJS}}</p></noscript>
<form method="post"><input type="hidden" name="token"><input type="hidden" name="to"></form>
<script>` + script + `</script>
{{- else if .View.Token}}
<form method="post"><input type="hidden" name="token" value="{{.View.Token}}"><input type="hidden" name="to" value="{{.View.To}}"><button>{{.Again}}</button></form>
{{- else if .View.Retry}}
<p><a href="">{{.Again}}</a></p>
{{- else if .View.Link}}
<p><a href="{{.View.Link}}">{{.Line}}</a></p>
{{- end}}
</main></body></html>
`

func newPage() *page {
	return &page{
		template: template.Must(template.New("page").Parse(layout)),
		// No form-action: Chromium holds it against the redirects after a form too, and where the site sends people from there (a
		// login, a payment) is its own business. The forms here post to the page itself, and nothing can be put into them.
		policy: "default-src 'none'; script-src " + hash(script) + "; style-src " + hash(style) +
			"; base-uri 'none'; frame-ancestors 'none'",
	}
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func (p *page) write(w http.ResponseWriter, r *http.Request, status int, v view) {
	lang, n, text, none := "en", 0, v.Text.en, malformed.en
	if prefersKorean(r.Header.Values("Accept-Language")) {
		lang, n, text, none = "ko", 1, v.Text.ko, malformed.ko
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", p.policy)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Vary", "Accept, Accept-Language")
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	_ = p.template.Execute(w, struct { // fails only where the client is gone
		Lang, Title, Sentence, None, Line, Again, NoJS string
		View                                           view
	}{lang, text[0], text[1], none[0], labels["line"][n], labels["again"][n], labels["noJS"][n], v})
}
