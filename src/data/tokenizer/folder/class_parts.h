#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizer/folder/stated_token.h"

namespace accrue::data {

/// How a class of transformers changes a tokenizer.json: it takes vocabulary, merges and
/// post-processor from it, and supplies everything else.
struct ClassParts {
  /// How the file's post-processor is used.
  enum class PostProcessorRule {
    as_stated,
    nothing,       ///< no token is put around a text
    beginning,     ///< bos_token before each text
    of_classifier  ///< cls_token before and sep_token after each text
  };
  /// How the special tokens are changed after all are added.
  enum class SpecialTokenRule {
    nothing,
    added_again,  ///< as special tokens of default properties
    made_special  ///< with their present properties
  };

  /// Special tokens if no file names them; without a text: there is none, which is stated.
  std::vector<std::pair<const char*, std::optional<std::string>>> named;
  std::vector<std::string> extra;  ///< if no file names any
  nlohmann::json normalizer, pre_tokenizer, decoder;
  bool fuses_unknown = false;
  bool falls_back_to_bytes = false;
  bool names_unknown = false;  ///< unk_token replaces what the vocabulary does not have
  PostProcessorRule around = PostProcessorRule::as_stated;
  SpecialTokenRule afterwards = SpecialTokenRule::nothing;
};

/// The parts of the class with this name (tokenizer_class_of()) under the settings of a
/// tokenizer_config.json; none: accrue does not know it. Throws a usage Error of `reader` if a
/// setting that it reads has another type.
std::optional<ClassParts> parts_of_class(std::string_view name,
                                         const nlohmann::ordered_json& settings,
                                         const TokenReader& reader);

}  // namespace accrue::data
