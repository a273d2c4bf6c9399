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
  std::string text;  ///< for a text its value, otherwise the source text
  int line = 1;
};

/// The tokens of a template, as jinja2 (3.1, lexer.py) cuts it with trim_blocks and lstrip_blocks,
/// which transformers sets: comments and raw blocks are removed, white space around tags is cut,
/// and the last is `end`. Throws a usage Error of the operation `what` that names the line.
std::vector<Token> tokens_of(std::string_view source, const std::string& what);

/// The usage Error for an invalid template, or one with something that this version does not know.
[[noreturn]] void refuse_template(const std::string& what, const std::string& expected,
                                  const std::string& received, int line);

}  // namespace accrue::data::jinja
