//! Reads a GraphQL document.

use super::{
    ast::{
        Argument, Document, Field, Fragment, Location, Operation, Selection, Value,
        VariableDefinition,
    },
    lexer::{SyntaxError, Token, tokens},
};

/// Deeper documents than this are refused; the stand-in's own stack is at stake.
const MAX_DEPTH: usize = 64;

pub(super) fn parse(source: &str) -> Result<Document, SyntaxError> {
    let mut parser = Parser {
        tokens: tokens(source)?,
        next: 0,
        depth: 0,
    };
    let mut document = Document {
        operations: Vec::new(),
        fragments: Vec::new(),
    };
    while parser.peek().is_some() {
        if parser.peek() == Some(&Token::Name("fragment".to_owned())) {
            document.fragments.push(parser.fragment()?);
        } else {
            document.operations.push(parser.operation()?);
        }
    }
    if document.operations.is_empty() {
        Err(SyntaxError)
    } else {
        Ok(document)
    }
}

struct Parser {
    tokens: Vec<(Token, Location)>,
    next: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(token, _)| token)
    }

    fn location(&self) -> Location {
        self.tokens
            .get(self.next)
            .map_or(Location { line: 1, column: 1 }, |(_, at)| *at)
    }

    fn take(&mut self) -> Result<Token, SyntaxError> {
        let token = self.peek().cloned().ok_or(SyntaxError)?;
        self.next += 1;
        Ok(token)
    }

    fn is(&self, punctuator: char) -> bool {
        self.peek() == Some(&Token::Punctuator(punctuator))
    }

    fn eat(&mut self, punctuator: char) -> bool {
        let found = self.is(punctuator);
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, punctuator: char) -> Result<(), SyntaxError> {
        if self.eat(punctuator) {
            Ok(())
        } else {
            Err(SyntaxError)
        }
    }

    fn name(&mut self) -> Result<String, SyntaxError> {
        match self.take()? {
            Token::Name(name) => Ok(name),
            _ => Err(SyntaxError),
        }
    }

    /// Items up to `close`, at least one.
    fn list<T>(
        &mut self,
        close: char,
        item: impl Fn(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<Vec<T>, SyntaxError> {
        let mut items = vec![item(self)?];
        while !self.eat(close) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn operation(&mut self) -> Result<Operation, SyntaxError> {
        let location = self.location();
        let (mut is_mutation, mut name, mut variables) = (false, None, Vec::new());
        if !self.is('{') {
            is_mutation = match self.name()?.as_str() {
                "query" => false,
                "mutation" => true,
                _ => return Err(SyntaxError),
            };
            if let Some(Token::Name(_)) = self.peek() {
                name = Some(self.name()?);
            }
            if self.eat('(') {
                variables = self.list(')', Self::variable)?;
            }
            self.directives()?;
        }
        let selections = self.selections()?;
        Ok(Operation {
            is_mutation,
            name,
            variables,
            selections,
            location,
        })
    }

    fn variable(&mut self) -> Result<VariableDefinition, SyntaxError> {
        let location = self.location();
        self.expect('$')?;
        let name = self.name()?;
        self.expect(':')?;
        let kind = self.kind()?;
        let default = if self.eat('=') {
            Some(self.value()?)
        } else {
            None
        };
        self.directives()?;
        Ok(VariableDefinition {
            name,
            kind,
            default,
            location,
        })
    }

    fn kind(&mut self) -> Result<String, SyntaxError> {
        let mut kind = if self.eat('[') {
            let inner = self.nested(Self::kind)?;
            self.expect(']')?;
            format!("[{inner}]")
        } else {
            self.name()?
        };
        if self.eat('!') {
            kind.push('!');
        }
        Ok(kind)
    }

    fn fragment(&mut self) -> Result<Fragment, SyntaxError> {
        self.name()?;
        let name = self.name()?;
        if self.name()? != "on" {
            return Err(SyntaxError);
        }
        let on = self.name()?;
        self.directives()?;
        Ok(Fragment {
            name,
            on,
            selections: self.selections()?,
        })
    }

    fn selections(&mut self) -> Result<Vec<Selection>, SyntaxError> {
        self.expect('{')?;
        self.nested(|parser| parser.list('}', Self::selection))
    }

    fn nested<T>(
        &mut self,
        inner: impl Fn(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(SyntaxError);
        }
        let parsed = inner(self)?;
        self.depth -= 1;
        Ok(parsed)
    }

    fn selection(&mut self) -> Result<Selection, SyntaxError> {
        let location = self.location();
        if self.peek() != Some(&Token::Spread) {
            return self.field().map(Selection::Field);
        }
        self.next += 1;
        match self.peek().cloned() {
            Some(Token::Name(on)) if on == "on" => {
                self.next += 1;
                let on = Some(self.name()?);
                self.directives()?;
                Ok(Selection::Inline {
                    on,
                    selections: self.selections()?,
                    location,
                })
            }
            Some(Token::Name(name)) => {
                self.next += 1;
                self.directives()?;
                Ok(Selection::Spread { name, location })
            }
            _ => {
                self.directives()?;
                Ok(Selection::Inline {
                    on: None,
                    selections: self.selections()?,
                    location,
                })
            }
        }
    }

    fn field(&mut self) -> Result<Field, SyntaxError> {
        let location = self.location();
        let first = self.name()?;
        let (alias, name) = if self.eat(':') {
            (Some(first), self.name()?)
        } else {
            (None, first)
        };
        let arguments = if self.eat('(') {
            self.list(')', Self::argument)?
        } else {
            Vec::new()
        };
        self.directives()?;
        let selections = if self.is('{') {
            self.selections()?
        } else {
            Vec::new()
        };
        Ok(Field {
            alias,
            name,
            arguments,
            selections,
            location,
        })
    }

    fn argument(&mut self) -> Result<Argument, SyntaxError> {
        let location = self.location();
        let name = self.name()?;
        self.expect(':')?;
        Ok(Argument {
            name,
            value: self.value()?,
            location,
        })
    }

    /// Directives are read and forgotten: no client of artifacts sends any.
    fn directives(&mut self) -> Result<(), SyntaxError> {
        while self.eat('@') {
            self.name()?;
            if self.eat('(') {
                self.list(')', Self::argument)?;
            }
        }
        Ok(())
    }

    fn value(&mut self) -> Result<Value, SyntaxError> {
        let location = self.location();
        match self.take()? {
            Token::Punctuator('$') => Ok(Value::Variable(self.name()?, location)),
            Token::Punctuator('[') if self.eat(']') => Ok(Value::List(Vec::new())),
            Token::Punctuator('[') => self
                .nested(|parser| parser.list(']', Self::value))
                .map(Value::List),
            Token::Punctuator('{') if self.eat('}') => Ok(Value::Object(Vec::new())),
            Token::Punctuator('{') => self
                .nested(|parser| parser.list('}', Self::member))
                .map(Value::Object),
            Token::Number(number) => Ok(Value::Number(number)),
            Token::Text(text) => Ok(Value::Text(text)),
            Token::Name(name) => Ok(match name.as_str() {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                "null" => Value::Null,
                _ => Value::Enum(name),
            }),
            Token::Punctuator(_) | Token::Spread => Err(SyntaxError),
        }
    }

    fn member(&mut self) -> Result<(String, Value), SyntaxError> {
        let name = self.name()?;
        self.expect(':')?;
        Ok((name, self.value()?))
    }
}
