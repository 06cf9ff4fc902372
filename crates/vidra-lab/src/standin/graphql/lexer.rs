//! Splits a GraphQL document into tokens.

use std::{iter::Peekable, str::Chars};

use super::ast::Location;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Name(String),
    Number(serde_json::Number),
    Text(String),
    Punctuator(char),
    Spread,
}

/// The document is no GraphQL; the real server does not say more either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::standin) struct SyntaxError;

pub(super) fn tokens(source: &str) -> Result<Vec<(Token, Location)>, SyntaxError> {
    let mut lexer = Lexer {
        rest: source.chars().peekable(),
        at: Location { line: 1, column: 1 },
    };
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next()? {
        tokens.push(token);
    }
    Ok(tokens)
}

struct Lexer<'a> {
    rest: Peekable<Chars<'a>>,
    at: Location,
}

impl Lexer<'_> {
    fn next(&mut self) -> Result<Option<(Token, Location)>, SyntaxError> {
        self.skip_ignored();
        let start = self.at;
        let Some(first) = self.advance() else {
            return Ok(None);
        };
        let token = match first {
            '{' | '}' | '(' | ')' | '[' | ']' | ':' | '!' | '=' | '$' | '@' | '|' | '&' => {
                Token::Punctuator(first)
            }
            '.' if self.advance() == Some('.') && self.advance() == Some('.') => Token::Spread,
            '"' => Token::Text(self.text()?),
            '-' | '0'..='9' => self.number(first)?,
            'A'..='Z' | 'a'..='z' | '_' => Token::Name(self.word(first)),
            _ => return Err(SyntaxError),
        };
        Ok(Some((token, start)))
    }

    fn advance(&mut self) -> Option<char> {
        let character = self.rest.next()?;
        if character == '\n' {
            self.at = Location {
                line: self.at.line + 1,
                column: 1,
            };
        } else {
            self.at.column += 1;
        }
        Some(character)
    }

    fn skip_ignored(&mut self) {
        while let Some(&next) = self.rest.peek() {
            match next {
                '#' => {
                    while self.rest.peek().is_some_and(|&c| c != '\n') {
                        self.advance();
                    }
                }
                ',' | '\u{feff}' => {}
                c if c.is_whitespace() => {}
                _ => return,
            }
            if next != '#' {
                self.advance();
            }
        }
    }

    fn word(&mut self, first: char) -> String {
        let mut word = String::from(first);
        while let Some(&next) = self.rest.peek() {
            if !(next.is_ascii_alphanumeric() || next == '_') {
                break;
            }
            word.push(next);
            self.advance();
        }
        word
    }

    fn number(&mut self, first: char) -> Result<Token, SyntaxError> {
        let mut digits = String::from(first);
        while let Some(&next) = self.rest.peek() {
            if !(next.is_ascii_digit() || matches!(next, '.' | 'e' | 'E' | '+' | '-')) {
                break;
            }
            digits.push(next);
            self.advance();
        }
        serde_json::from_str(&digits)
            .map(Token::Number)
            .map_err(|_| SyntaxError)
    }

    fn text(&mut self) -> Result<String, SyntaxError> {
        let mut text = String::new();
        loop {
            match self.advance() {
                Some('"') if text.is_empty() && self.rest.peek() == Some(&'"') => {
                    self.advance();
                    return self.block();
                }
                Some('"') => return Ok(text),
                Some('\\') => text.push(self.escape()?),
                Some('\n') | None => return Err(SyntaxError),
                Some(character) => text.push(character),
            }
        }
    }

    fn escape(&mut self) -> Result<char, SyntaxError> {
        match self.advance() {
            Some('n') => Ok('\n'),
            Some('t') => Ok('\t'),
            Some('r') => Ok('\r'),
            Some('b') => Ok('\u{8}'),
            Some('f') => Ok('\u{c}'),
            Some(plain @ ('"' | '\\' | '/')) => Ok(plain),
            Some('u') => {
                let digits: String = (0..4).filter_map(|_| self.advance()).collect();
                let code = u32::from_str_radix(&digits, 16).map_err(|_| SyntaxError)?;
                char::from_u32(code).ok_or(SyntaxError)
            }
            _ => Err(SyntaxError),
        }
    }

    /// A block string, up to three quotes; indentation is left as it is.
    fn block(&mut self) -> Result<String, SyntaxError> {
        let mut text = String::new();
        while let Some(character) = self.advance() {
            text.push(character);
            if let Some(body) = text.strip_suffix("\"\"\"") {
                return Ok(body.trim().to_owned());
            }
        }
        Err(SyntaxError)
    }
}
