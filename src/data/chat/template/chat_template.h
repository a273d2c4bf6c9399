#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace accrue::data {

/// The chat template of a tokenizer: a text in Jinja that defines how messages become the single
/// text that a model reads.
///
/// Renders what Python's jinja2 3.1 renders in the environment that transformers sets up for chat
/// templates (ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, break and continue, its
/// own tojson, raise_exception, strftime_now, {% generation %}), byte by byte, for the part of the
/// language that such templates use. Everything else is refused by name when it is parsed, or when
/// it is rendered if that depends on values: also unknown filters in branches that are not taken,
/// values that print as an address, set blocks that read what they set, and integers of more than
/// 63 bits and a sign, except for those of messages (read_line_json()), which can be printed and
/// compared. One difference: a given variable that is read inside a block and set after that block,
/// which jinja2 treats as undefined there.
/// A template is a foreign file: the depth, the work and the size of a rendering are bounded
/// (data/chat/template/values/template_work.h).
///
/// Immutable: safe to use from several threads.
class ChatTemplate {
 public:
  /// A part of a rendered text, and whether a model has to learn it.
  struct Piece {
    std::string text;
    bool is_learned = false;
    bool operator==(const Piece&) const = default;
  };

  /// Throws a usage Error of the operation `what` that names the line and what this version does
  /// not know: a tag, a filter, a test, a syntax.
  static ChatTemplate parse(const std::string& source, const std::string& what);

  /// The text. `variables` is an object: messages, tools, add_generation_prompt, bos_token and
  /// whatever else the template reads. `now` is the time that strftime_now shows. Throws a usage
  /// Error, with the line, if the template raises or meets a value that it cannot use.
  std::string render(const nlohmann::ordered_json& variables, const std::tm& now) const;

  /// Whether the template marks the model's words by {% generation %} blocks.
  bool has_generation() const;

  /// The text by pieces, of which those from {% generation %} blocks are learned. A usage Error
  /// if one of them is in a macro, a set or a filter block, whose position in the text is
  /// unknown.
  std::vector<Piece> render_pieces(const nlohmann::ordered_json& variables,
                                   const std::tm& now) const;

  const std::string& what() const;

 private:
  struct Parsed;
  explicit ChatTemplate(std::shared_ptr<const Parsed> parsed);
  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace accrue::data
