// Cuts and normalizes texts for unicode_golden.py and pattern_golden.py:
// pattern_golden REQUESTS OUT. A request is {"pre_tokenizer": ...} or {"normalizer": ...}, a byte
// fe, texts that each end with a byte ff, and a byte fd. Its answer has the words of each text, or
// the normalized text, each ending with ff, a text with fe, and the answer with fd; or ! and the
// reason for the refusal. None of these bytes is in UTF-8.

#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/atomic_file.h"
#include "data/tokenizer/pipeline/normalizer.h"
#include "data/tokenizer/pipeline/pre_tokenizer.h"

namespace {

using namespace accrue::data;
using Json = nlohmann::json;

constexpr char end_of_word = '\xff', end_of_texts = '\xfe', end_of_request = '\xfd';

/// Appends the words of a text, each with its end.
using Answer = std::function<void(std::string_view text, std::string& answer)>;

Answer cutting(const Json& stated) {
  const std::shared_ptr<const PreTokenizer> cutter(
      read_pre_tokenizer(stated, "a pre_tokenizer").cutter);
  return [cutter](std::string_view text, std::string& answer) {
    TextGrowth growth(text.size());
    const auto take = [&](std::string_view word) { answer.append(word) += end_of_word; };
    if (cutter != nullptr)
      cutter->cut(text, PrecedingText::nothing, growth, take);
    else
      take(text);
  };
}

Answer normalizing(const Json& stated) {
  const std::shared_ptr<const Normalizer> normalizer(read_normalizer(stated, "a normalizer"));
  return [normalizer](std::string_view text, std::string& answer) {
    TextGrowth growth(text.size());
    std::string normalized(text);
    normalizer->apply(normalized, PrecedingText::nothing, growth);
    answer.append(normalized) += end_of_word;
  };
}

std::string answer_to(std::string_view request) {
  const std::size_t stated_end = request.find(end_of_texts);
  const Json stated = Json::parse(request.substr(0, stated_end));
  std::string_view texts = request.substr(stated_end + 1);
  try {
    const Answer answer_text = stated.contains("normalizer") ? normalizing(stated["normalizer"])
                                                             : cutting(stated["pre_tokenizer"]);
    std::string answer;
    while (!texts.empty()) {
      const std::size_t end = texts.find(end_of_word);
      answer_text(texts.substr(0, end), answer);
      answer += end_of_texts;
      texts.remove_prefix(end + 1);
    }
    return answer;
  } catch (const std::exception& error) {
    return "!" + std::string(error.what());
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const std::string content = accrue::read_file(arguments[1]);
  std::ofstream out(arguments[2], std::ios::binary);
  for (std::string_view requests = content; !requests.empty();) {
    const std::size_t end = requests.find(end_of_request);
    out << answer_to(requests.substr(0, end)) << end_of_request;
    requests.remove_prefix(end + 1);
  }
}
