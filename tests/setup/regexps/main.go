// What Go's regexp says: for each line of JSON, whether the pattern is found in each text, or why it is none; and each
// text with what was found replaced by the template.
// With an argument, the table of Unicode's scripts that the engine has (engine/re2/scripts.json).
package main

import (
	"encoding/json"
	"os"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode"
)

// For each script that a pattern can name, where it begins and ends, each as the distance from the one before.
func scripts() map[string]string {
	found := map[string]string{"": unicode.Version}
	for name, table := range unicode.Scripts {
		if _, err := syntax.Parse(`\p{`+name+"}", syntax.Perl); err != nil {
			continue
		}
		distances, last := []string{}, rune(0)
		for char := rune(0); char <= unicode.MaxRune+1; char++ {
			if unicode.Is(table, char) == (len(distances)%2 == 0) {
				distances = append(distances, strconv.FormatInt(int64(char-last), 36))
				last = char
			}
		}
		found[strings.ToLower(name)] = strings.Join(distances, " ")
	}
	return found
}

func main() {
	if len(os.Args) > 1 {
		table := json.NewEncoder(os.Stdout)
		table.SetIndent("", "")
		table.Encode(scripts())
		return
	}
	lines, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var asked struct {
			Pattern, Template string
			Texts             []string
		}
		if lines.Decode(&asked) != nil {
			return
		}
		found, replaced, message := []bool{}, []string{}, ""
		if compiled, err := regexp.Compile(asked.Pattern); err != nil {
			message = err.Error()
		} else {
			for _, text := range asked.Texts {
				found = append(found, compiled.MatchString(text))
				replaced = append(replaced, compiled.ReplaceAllString(text, asked.Template))
			}
		}
		answers.Encode(map[string]any{"Error": message, "Found": found, "Replaced": replaced})
	}
}
