// Package page is what people see while they wait: the waiting page, which works with and without scripts, and what an app needs
// to know of a queue before it enters.
//
//	GET /queue/wait?queue=…&return=…&lang=…   the page. Its script (client/) enters, polls, streams and goes to the site
//	    …&plain=1                             the same without scripts: the number is in the page, which renews itself (Refresh)
//	POST /queue/enter/form                    takes a place for the page without scripts; served where entering is (RegisterForm)
//	GET /queue/info?queue=…                   how a queue stands, as JSON, for anybody
//	GET /queue/page/<version>/<file>          scripts, styles, and what operators put beside them
//	GET /queue/preview?state=…&lang=…         every state of the page as it would look; on the private port (RegisterPreview)
//
// # What it promises
//
// The page loads nothing from anywhere else, and a strict Content-Security-Policy says so. It is under 30 KB compressed. Where it
// sends people is a return address of an allowed origin, or what the queue's operators set; anything else is a page that says so.
// A GET changes nothing: a place is taken by the script, or by a form.
//
// What is a refresh is decided in the browser (client/src/page.ts): a load of the kind "reload" that began while the page was
// showing, and was not the browser's own (a tab that was discarded). Everything else keeps the place: forward and back, a
// second tab, a network that was lost. Without scripts the two can't be told apart, so there nothing is a refresh.
//
// # The look
//
// Operators give a folder with template.html and style.css (look.go), and files beside them. It is checked when the process
// starts, with every state in every language; what is wrong is told with file and line, and nothing starts. A language is one
// file, lang/<tag>.json, here or in that folder, with every text that lang/en.json has.
//
// # When what it depends on dies
//
// It knows the catalogue as the process last read it, and renders from memory. Without scripts it asks the position service of its
// own process; when that can't tell, the page says so and renews itself.
//
// # What it leaves out
//
// Gates and arriving at the site (pkg/gate), pushing (GET /queue/events), and cookies of its own: it sets none.
package page
