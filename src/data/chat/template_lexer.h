#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace accrue::data::jinja {

struct Token {
  enum class Kind {
    data,         ///< text of the template between its tags
    print_begin,  ///< {{
    print_end,    ///< }}
    block_begin,  ///< {%
    block_end,    ///< %}
    name,
    text,
    integer,
    real,
    op,
    end,
  };
  Kind kind = Kind::end;
  std::string text;  ///< of a text what it stands for, of everything else as it is written
  int line = 1;
};

/// The tokens of a template, as jinja2 cuts it (3.1, lexer.py) with trim_blocks and lstrip_blocks,
/// which transformers sets: comments and raw blocks are gone, white space around tags is cut, and
/// the last is `end`. Throws a usage Error, its operation being `what`, that names the line.
std::vector<Token> tokens_of(std::string_view source, const std::string& what);

/// The usage Error of a template that is none, or has something that this version does not know.
[[noreturn]] void refuse_template(const std::string& what, const std::string& expected,
                                  const std::string& received, int line);

}  // namespace accrue::data::jinja
