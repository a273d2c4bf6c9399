#include "cli/help/wrapped_text.h"

#include <sstream>

namespace accrue::cli {
namespace {

/// Puts words into lines.
class Wrapper {
 public:
  Wrapper(std::size_t width, std::size_t indent) : width_(width), indent_(indent) {}

  void add_words(const std::string& line) {
    std::istringstream words(line);
    for (std::string word; words >> word;) add(word);
  }
  void add_verbatim(const std::string& line) {
    end_line();
    out_ += std::string(indent_, ' ') + line + '\n';
  }
  void end_paragraph() {
    end_line();
    out_ += '\n';
  }
  std::string take() {
    end_line();
    return std::move(out_);
  }

 private:
  void add(const std::string& word) {
    if (!line_.empty() && indent_ + line_.size() + 1 + word.size() > width_) end_line();
    line_ += (line_.empty() ? "" : " ") + word;
  }
  void end_line() {
    if (!line_.empty()) out_ += std::string(indent_, ' ') + line_ + '\n';
    line_.clear();
  }

  std::size_t width_, indent_;
  std::string line_, out_;
};

}  // namespace

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  Wrapper wrapper(width, indent);
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty())
      wrapper.end_paragraph();
    else if (line.front() == ' ')
      wrapper.add_verbatim(line);
    else
      wrapper.add_words(line);
  }
  return wrapper.take();
}

std::string hanging(const std::string& head, std::string_view text, std::size_t column,
                    std::size_t width) {
  const std::string body = wrapped(text, width, column);
  if (body.empty()) return head + "\n";
  if (head.size() + 2 > column) return head + "\n" + body;
  return head + body.substr(head.size());
}

}  // namespace accrue::cli
