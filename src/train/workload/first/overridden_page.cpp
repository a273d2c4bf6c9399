#include "train/workload/first/overridden_page.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <sstream>

#include "train/config/key.h"
#include "train/config/toml/toml_reader.h"
#include "train/workload/first/page.h"

namespace accrue::train {
namespace {

constexpr const char* stated_mark = "stated on the command line";
/// Reasons speak of other values of the choice, too: layers of "this width".
constexpr const char* remark_on_reasons =
    "# The other reasons are those of the choice, before the command line changed it.\n";

std::string section_of(const std::string& key) { return key.substr(0, key.find('.')); }

/// Whether `key` is `name` or lies below it: optim.schedule.warmup below optim.schedule.
bool is_within(const std::string& key, const std::string& name) {
  return key == name || key.starts_with(name + ".");
}

/// Copies a page line by line, with other values.
class Rewriter {
 public:
  Rewriter(const Config& chosen, const std::vector<std::string>& overrides, const Config& config)
      : config_(config) {
    for (const ConfigDifference& one : differences(chosen, config)) differing_.insert(one.key);
    for (const std::string& text : overrides)
      for (const Entry& entry : read_override(text)) stated_.insert(entry.path);
  }

  std::string rewritten(const std::string& page) {
    std::istringstream lines(page);
    for (std::string line; std::getline(lines, line);) {
      const bool is_key = !line.empty() && line.front() != '#' && line.front() != '[';
      if (is_key) {
        take_key(line);
        continue;
      }
      if (line.empty()) end_section();
      if (line.empty() && !end_of_preamble_) end_of_preamble_ = text_.size();
      if (line.starts_with('[')) section_ = line.substr(1, line.find(']') - 1);
      text_ += line + "\n";
    }
    end_section();
    add_sections();
    if (changes_a_line_) text_.insert(end_of_preamble_.value_or(0), remark_on_reasons);
    return text_;
  }

 private:
  /// A line of the page stays if nothing of it differs.
  void take_key(const std::string& line) {
    const std::string name = section_ + "." + line.substr(0, line.find(' '));
    const auto is_of_line = [&](const std::string& key) { return is_within(key, name); };
    const bool differs = std::ranges::any_of(differing_, is_of_line);
    changes_a_line_ = changes_a_line_ || differs;
    for (const Key& key : keys()) {
      if (!is_of_line(key.name)) continue;
      if (differs) write(key);
      written_.insert(key.name);
    }
    if (!differs) text_ += line + "\n";
  }

  void write(const Key& key) {
    const std::optional<Value> value = read_value(key, config_);
    if (!value) return;
    const std::string name = key.name.substr(section_.size() + 1);
    text_ += line_of_key(name, to_toml(*value), stated_.contains(key.name) ? stated_mark : "");
  }

  bool is_missing(const Key& key) const {
    const bool is_wanted = differing_.contains(key.name) || stated_.contains(key.name);
    return is_wanted && !written_.contains(key.name) && read_value(key, config_);
  }

  /// Adds what the page lacks in the section.
  void end_section() {
    if (section_.empty()) return;
    for (const Key& key : keys()) {
      if (section_of(key.name) != section_ || !is_missing(key)) continue;
      write(key);
      written_.insert(key.name);
    }
  }

  /// Adds the sections that the page lacks.
  void add_sections() {
    for (const Key& key : keys()) {
      if (!is_missing(key)) continue;
      section_ = section_of(key.name);
      text_ += "\n[" + section_ + "]\n";
      end_section();
    }
  }

  const Config& config_;
  std::set<std::string> differing_, stated_, written_;
  std::string section_, text_;
  std::optional<std::size_t> end_of_preamble_;
  bool changes_a_line_ = false;
};

}  // namespace

std::string overridden_page(const std::string& page, const std::vector<std::string>& overrides,
                            const Config& config) {
  return Rewriter(parse_config(page, "the chosen config"), overrides, config).rewritten(page);
}

}  // namespace accrue::train
