#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "distributed/group/store/sealed_texts.h"

namespace accrue::distributed {

/// A store for an engine, in which its ranks exchange their addresses: values are sealed texts, and
/// one that is not throws a std::runtime_error that names its key. Counters and waits, which have
/// no value to seal, go directly to the store; writes without a seal are not supported.
class SealedStore final : public c10d::Store {
 public:
  /// `store` has the keys of `texts` under the same names.
  SealedStore(c10::intrusive_ptr<c10d::Store> store, SealedTexts texts);

  c10::intrusive_ptr<c10d::Store> clone() override;

  using c10d::Store::set;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  /// Waits until there is a value.
  std::vector<std::uint8_t> get(const std::string& key) override;

  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;
  const std::chrono::milliseconds& getTimeout() const noexcept override;
  void setTimeout(const std::chrono::milliseconds& timeout) override;

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  SealedTexts texts_;
};

}  // namespace accrue::distributed
