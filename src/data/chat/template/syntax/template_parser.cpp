#include "data/chat/template/syntax/template_parser.h"

#include <algorithm>

#include "data/chat/template/syntax/expression_parser.h"

namespace accrue::data::jinja {
namespace {

using EndNames = std::vector<std::string_view>;

class StatementParser {
 public:
  explicit StatementParser(SyntaxTokens& tokens) : tokens_(tokens), expressions_(tokens) {}

  ParsedTemplate run() {
    ParsedTemplate parsed;
    parsed.statements = statements({});
    if (!tokens_.is(Token::Kind::end)) tokens_.refuse("a tag that was opened");
    parsed.has_generation = has_generation_;
    return parsed;
  }

 private:
  /// Up to a tag with one of the names, which is then the current token, or the template's end.
  Statements statements(const EndNames& ends) {
    constexpr int deepest = 60;
    if (++nested_ > deepest)
      tokens_.refuse("blocks nested at most " + std::to_string(deepest) + " deep", "deeper ones");
    Statements read;
    while (!tokens_.is(Token::Kind::end)) {
      const int line = tokens_.line();
      if (tokens_.is(Token::Kind::data)) {
        add(read, Data{tokens_.next().text}, line);
      } else if (tokens_.is(Token::Kind::print_begin)) {
        tokens_.next();
        add(read, Print{expressions_.tuple()}, line);
        expect(Token::Kind::print_end, "'}}'");
      } else {
        expect(Token::Kind::block_begin, "a tag");
        const bool is_end = tokens_.is(Token::Kind::name) &&
                            std::ranges::find(ends, tokens_.current().text) != ends.end();
        if (is_end) {
          --nested_;
          return read;
        }
        statement(read);
        end_tag();
      }
    }
    if (!ends.empty()) tokens_.refuse("{% " + std::string(ends.back()) + " %}");
    --nested_;
    return read;
  }

  void statement(Statements& read) {
    const int line = tokens_.line();
    const std::string tag = tokens_.expect_name();
    if (tag == "if") return add(read, if_statement(), line);
    if (tag == "for") return add(read, for_statement(), line);
    if (tag == "set") return add(read, set_statement(), line);
    if (tag == "macro") return add(read, macro(), line);
    if (tag == "filter") return add(read, filter_block(), line);
    if (tag == "with") return add(read, with(), line);
    if (tag == "generation") return add(read, generation(), line);
    const bool leaves = tag == "break" || tag == "continue";
    if (leaves && loops_ == 0) tokens_.refuse("'" + tag + "' in a loop", "one outside");
    if (tag == "break") return add(read, Break{}, line);
    if (tag == "continue") return add(read, Continue{}, line);
    tokens_.refuse("a tag that this version knows", "'" + tag + "'");
  }

  template <class Node>
  static void add(Statements& read, Node node, int line) {
    read.push_back(std::make_unique<const Statement>(Statement{std::move(node), line}));
  }

  void expect(Token::Kind kind, const std::string& expected) {
    if (!tokens_.is(kind)) tokens_.refuse(expected);
    tokens_.next();
  }

  void end_tag() { expect(Token::Kind::block_end, "'%}'"); }

  /// The body of a block up to its end tag, whose name is read.
  Statements body(std::string_view end) {
    end_tag();
    Statements read = statements({end});
    tokens_.next();
    return read;
  }

  /// A body that runs separately from the loop around it, which it cannot leave.
  Statements body_of_its_own(std::string_view end) {
    const int around = loops_;
    loops_ = 0;
    Statements read = body(end);
    loops_ = around;
    return read;
  }

  If if_statement() {
    If node;
    while (true) {
      ExpressionPointer condition = expressions_.tuple(false);
      end_tag();
      Statements branch = statements({"elif", "else", "endif"});
      node.branches.emplace_back(std::move(condition), std::move(branch));
      const std::string next = tokens_.next().text;
      if (next == "elif") continue;
      if (next == "else") node.otherwise = body("endif");
      return node;
    }
  }

  For for_statement() {
    For node;
    node.target = target_of_loop();
    if (!tokens_.skip_name("in")) tokens_.refuse("'in'");
    node.items = expressions_.tuple(false, "recursive");
    if (tokens_.skip_name("if")) node.condition = expressions_.expression();
    if (tokens_.is_name("recursive")) tokens_.refuse("a loop that is not recursive");
    end_tag();
    ++loops_;
    node.body = statements({"else", "endfor"});
    --loops_;
    if (tokens_.next().text == "else") node.otherwise = body("endfor");
    return node;
  }

  std::string assigned_name() {
    std::string name = tokens_.expect_name();
    const bool is_reserved = name == "true" || name == "false" || name == "none" ||
                             name == "True" || name == "False" || name == "None" || name == "loop";
    if (is_reserved) tokens_.refuse("a name to assign to", "'" + name + "'");
    return name;
  }

  Target target_of_loop() {
    Target target = one_target();
    if (!tokens_.is_op(",")) return target;
    Target all;
    all.parts.push_back(std::move(target));
    while (tokens_.skip_op(",") && !tokens_.is_name("in") && !tokens_.is_op("="))
      all.parts.push_back(one_target());
    return all;
  }

  Target one_target() {
    if (!tokens_.skip_op("(")) return {assigned_name(), {}};
    Target target = target_of_loop();
    tokens_.expect_op(")");
    return target;
  }

  Set set_statement() {
    Set node;
    node.target = target_of_loop();
    if (node.target.parts.empty() && tokens_.skip_op(".")) node.attribute = tokens_.expect_name();
    if (tokens_.skip_op("=")) {
      node.value = expressions_.tuple();
      return node;
    }
    if (!node.target.parts.empty()) tokens_.refuse("'='");
    if (tokens_.skip_op("|")) node.value = expressions_.filters_of_block();
    const auto known = static_cast<std::ptrdiff_t>(expressions_.names().size());
    node.body = body_of_its_own("endset");
    // In jinja2 such a block sees the former variable or not, depending on what was read earlier.
    const auto& names = expressions_.names();
    if (std::find(names.begin() + known, names.end(), node.target.name) != names.end())
      tokens_.refuse("a set block that does not read what it sets", "'" + node.target.name + "'");
    return node;
  }

  Macro macro() {
    Macro node;
    node.name = assigned_name();
    tokens_.expect_op("(");
    while (!tokens_.is_op(")")) {
      std::string name = assigned_name();
      ExpressionPointer preset;
      if (tokens_.skip_op("="))
        preset = expressions_.expression();
      else if (!node.parameters.empty() && node.parameters.back().second != nullptr)
        tokens_.refuse("a default of '" + name + "', as those before it have");
      node.parameters.emplace_back(std::move(name), std::move(preset));
      if (!tokens_.is_op(")")) tokens_.expect_op(",");
    }
    tokens_.next();
    node.body = body_of_its_own("endmacro");
    return node;
  }

  FilterBlock filter_block() {
    ExpressionPointer filters = expressions_.filters_of_block();
    return {std::move(filters), body_of_its_own("endfilter")};
  }

  With with() {
    With node;
    while (!tokens_.is(Token::Kind::block_end)) {
      if (!node.variables.empty()) tokens_.expect_op(",");
      Target target = one_target();
      tokens_.expect_op("=");
      node.variables.emplace_back(std::move(target), expressions_.expression());
    }
    node.body = body("endwith");
    return node;
  }

  Generation generation() {
    has_generation_ = true;
    return {body_of_its_own("endgeneration")};
  }

  SyntaxTokens& tokens_;
  ExpressionParser expressions_;
  int nested_ = 0, loops_ = 0;
  bool has_generation_ = false;
};

}  // namespace

ParsedTemplate parse_template(const std::string& source, const std::string& what) {
  SyntaxTokens tokens(tokens_of(source, what), what);
  return StatementParser(tokens).run();
}

}  // namespace accrue::data::jinja
