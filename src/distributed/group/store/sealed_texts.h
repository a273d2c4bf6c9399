#pragma once

#include <memory>
#include <optional>
#include <string>

#include "distributed/group/store/store_client.h"
#include "distributed/group/store/text_seal.h"

namespace accrue::distributed {

/// The result of reading a key.
struct Reading {
  bool is_there = false;            ///< whether anyone wrote there
  std::optional<std::string> text;  ///< the text, if a rank of this run wrote it

  /// Whether another process wrote there: a rank with another token, or a stranger.
  bool is_foreign() const { return is_there && !text; }
};

/// The keys of a store as the ranks of one run use them: each text is sealed for its key, and a
/// text without a seal of this run, or longer than StoreClient::kLongest, is ignored. Blocks and
/// throws as StoreClient does. Copies share its connection.
class SealedTexts {
 public:
  /// All keys are below `folder`.
  SealedTexts(std::shared_ptr<StoreClient> client, std::string folder, TextSeal seal)
      : client_(std::move(client)), folder_(std::move(folder)), seal_(std::move(seal)) {}

  void write(const std::string& key, const std::string& text) const;
  /// Whether anyone, of this run or not, wrote there.
  bool has(const std::string& key) const;
  Reading read(const std::string& key) const;
  /// Writes `text` if no rank of this run wrote before, over anything else. Returns the text of the
  /// first of them.
  std::string decide(const std::string& key, const std::string& text) const;

 private:
  std::string whole(const std::string& key) const { return folder_ + "/" + key; }

  std::shared_ptr<StoreClient> client_;
  std::string folder_;
  TextSeal seal_;
};

}  // namespace accrue::distributed
