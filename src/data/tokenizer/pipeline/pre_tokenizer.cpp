#include "data/tokenizer/pipeline/pre_tokenizer.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "data/json/json_part.h"
#include "data/tokenizer/pipeline/cut.h"
#include "data/tokenizer/pipeline/part_forms.h"
#include "data/tokenizer/pipeline/pattern.h"

namespace accrue::data {
namespace {

using Json = nlohmann::json;

/// Digits uses Rust's char::is_numeric, of Unicode 17: these were not numbers in 16.
constexpr const char* digits = R"([\p{N}\x{11de0}-\x{11de9}\x{16ff4}-\x{16ff6}])";

class ByPattern final : public PreTokenizer {
 public:
  ByPattern(Pattern pattern, Cut how) : pattern_(std::move(pattern)), how_(how) {}
  void cut(std::string_view text, PrecedingText, TextGrowth&, const WordSink& sink) const override {
    Cutter cutter(text, how_, sink);
    pattern_.for_each(text, [&](Extent match) { cutter.add(match); });
    cutter.end();
  }

 private:
  Pattern pattern_;
  Cut how_;
};

/// Puts a text before those that do not begin with it.
class Prefixed final : public PreTokenizer {
 public:
  explicit Prefixed(std::string prefix) : prefix_(std::move(prefix)) {}
  void cut(std::string_view text, PrecedingText before, TextGrowth& growth,
           const WordSink& sink) const override {
    if (before == PrecedingText::text || text.starts_with(prefix_)) {
      sink(text);
    } else {
      growth.take(prefix_.size() + text.size());
      sink(prefix_ + std::string(text));
    }
  }

 private:
  std::string prefix_;
};

/// SentencePiece's: spaces are marked, and one is put before the text.
class MetaspaceWords final : public PreTokenizer {
 public:
  enum class Prepend { always, first, never };
  MetaspaceWords(std::string shown, Prepend prepend, bool cuts)
      : shown_(std::move(shown)), prepend_(prepend), cuts_(cuts) {}

  void cut(std::string_view text, PrecedingText before, TextGrowth& growth,
           const WordSink& sink) const override {
    std::string changed(text);
    space_.replace(changed, shown_, growth);
    const bool wants = (prepend_ == Prepend::always && before != PrecedingText::text) ||
                       (prepend_ == Prepend::first && before == PrecedingText::nothing);
    if (wants && !changed.starts_with(shown_)) {
      growth.take(shown_.size());
      changed.insert(0, shown_);
    }
    if (cuts_)
      words_.cut(changed, before, growth, sink);
    else
      sink(changed);
  }

 private:
  Pattern space_{std::string(" ")};
  std::string shown_;
  ByPattern words_{Pattern(shown_), {.behaviour = Cut::Behaviour::merged_with_next}};
  Prepend prepend_;
  bool cuts_;
};

class PreTokenizerSteps final : public PreTokenizer {
 public:
  explicit PreTokenizerSteps(std::vector<std::unique_ptr<const PreTokenizer>> steps)
      : steps_(std::move(steps)) {}
  void cut(std::string_view text, PrecedingText before, TextGrowth& growth,
           const WordSink& sink) const override {
    cut_from(0, text, before, growth, sink);
  }

 private:
  void cut_from(std::size_t step, std::string_view text, PrecedingText before, TextGrowth& growth,
                const WordSink& sink) const {
    if (step == steps_.size()) {
      sink(text);
      return;
    }
    PrecedingText before_part = before;
    steps_[step]->cut(text, before, growth, [&](std::string_view part) {
      cut_from(step + 1, part, before_part, growth, sink);
      before_part = PrecedingText::token;
    });
  }

  std::vector<std::unique_ptr<const PreTokenizer>> steps_;
};

Cut::Behaviour behaviour_of(const JsonPart& part) {
  using enum Cut::Behaviour;
  const std::string name = part.text("behavior");
  if (name == "Isolated") return isolated;
  if (name == "Removed") return removed;
  if (name == "MergedWithPrevious") return merged_with_previous;
  if (name == "MergedWithNext") return merged_with_next;
  if (name == "Contiguous") return contiguous;
  part.refuse("behavior", "a behaviour that this version knows");
}

MetaspaceWords::Prepend prepend_of(const JsonPart& part) {
  using enum MetaspaceWords::Prepend;
  if (!part.value("add_prefix_space").is_null() && part.value("prepend_scheme").is_null())
    return part.flag("add_prefix_space", true) ? always : never;  // files of before 2024
  const std::string scheme = part.optional_text("prepend_scheme").value_or("always");
  if (scheme == "always") return always;
  if (scheme == "first") return first;
  if (scheme == "never") return never;
  part.refuse("prepend_scheme", "always, first or never");
}

using Steps = std::vector<std::unique_ptr<const PreTokenizer>>;

/// Appends the stated steps; returns whether the part represents bytes as characters.
bool read_steps(const Json& stated, const std::string& what, Steps& steps) {
  const JsonPart part(stated, what, "pre_tokenizer");
  const std::string type = part.type();
  const auto by_pattern = [&](std::string_view pattern, Cut::Behaviour behaviour) {
    steps.push_back(
        std::make_unique<ByPattern>(Pattern(Regex(std::string(pattern), what)), Cut{behaviour}));
  };
  if (type == "Sequence") {
    bool of_bytes = false;
    for (const Json& step : part.list("pretokenizers")) {
      if (of_bytes) part.refuse("pretokenizers", "ByteLevel as the last");
      of_bytes = read_steps(step, what, steps);
    }
    return of_bytes;
  }
  if (type == "ByteLevel") {
    if (part.flag("add_prefix_space", true)) steps.push_back(std::make_unique<Prefixed>(" "));
    if (part.flag("use_regex", true)) by_pattern(kWordsOfGpt2, Cut::Behaviour::isolated);
    return true;
  }
  if (type == "Split") {
    steps.push_back(std::make_unique<ByPattern>(
        read_pattern(part), Cut{behaviour_of(part), part.flag("invert", false)}));
  } else if (type == "Digits") {
    by_pattern(digits, part.flag("individual_digits", false) ? Cut::Behaviour::isolated
                                                             : Cut::Behaviour::contiguous);
  } else if (type == "WhitespaceSplit") {
    by_pattern(R"(\s)", Cut::Behaviour::removed);
  } else if (type == "Metaspace") {
    steps.push_back(std::make_unique<MetaspaceWords>(part.text("replacement"), prepend_of(part),
                                                     part.flag("split", true)));
  } else {
    part.refuse_type();
  }
  return false;
}

}  // namespace

ReadPreTokenizer read_pre_tokenizer(const Json& stated, const std::string& what) {
  ReadPreTokenizer read;
  if (stated.is_null()) return read;
  Steps steps;
  read.of_bytes = read_steps(stated, what, steps);
  if (steps.size() == 1)
    read.cutter = std::move(steps.front());
  else if (!steps.empty())
    read.cutter = std::make_unique<PreTokenizerSteps>(std::move(steps));
  return read;
}

}  // namespace accrue::data
