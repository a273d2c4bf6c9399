#include "data/tokenizer/end_of_text.h"

#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "core/atomic_file.h"

namespace accrue::data {

std::optional<EndOfText> end_of_text_beside(const std::filesystem::path& tokenizer_file,
                                            const std::string& what) {
  const std::filesystem::path settings = tokenizer_file.parent_path() / "tokenizer_config.json";
  std::error_code unreadable;
  if (!std::filesystem::exists(settings, unreadable)) return std::nullopt;
  const auto stated = nlohmann::json::parse(read_file(settings), nullptr, /*exceptions=*/false);
  const auto refuse = [&](const std::string& expected, const std::string& received) {
    throw usage_error(what + ": " + settings.string(), expected, received,
                      "the tokenizer_config.json that the model came with");
  };
  if (!stated.is_object()) refuse("a JSON object", "something else or broken JSON");
  nlohmann::json token = stated.value("eos_token", nlohmann::json());
  if (token.is_object()) token = token.value("content", nlohmann::json());
  if (token.is_null()) return std::nullopt;
  if (!token.is_string())
    refuse("an eos_token that is a text, or an object with \"content\"",
           token.dump().substr(0, 80));
  return EndOfText{token.get<std::string>(), settings};
}

}  // namespace accrue::data
