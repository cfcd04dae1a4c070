package plot

import (
	_ "embed"
	"html/template"
)

//go:embed style.css
var style string

// Style is what a report's page has between <style> and </style>.
func Style() template.CSS { return template.CSS(style) }
