#include "distributed/group/store/sealed_store.h"

#include <stdexcept>
#include <utility>

namespace accrue::distributed {

SealedStore::SealedStore(c10::intrusive_ptr<c10d::Store> store, SealedTexts texts)
    : store_(std::move(store)), texts_(std::move(texts)) {}

c10::intrusive_ptr<c10d::Store> SealedStore::clone() {
  return c10::make_intrusive<SealedStore>(store_->clone(), texts_);
}

void SealedStore::set(const std::string& key, const std::vector<std::uint8_t>& value) {
  texts_.write(key, {value.begin(), value.end()});
}

std::vector<std::uint8_t> SealedStore::get(const std::string& key) {
  store_->wait({key});
  const std::optional<std::string> text = texts_.read(key).text;
  if (!text)
    throw std::runtime_error("what stands in the store under '" + key +
                             "' was written by no rank with this ACCRUE_RUN_TOKEN");
  return {text->begin(), text->end()};
}

std::int64_t SealedStore::add(const std::string& key, std::int64_t value) {
  return store_->add(key, value);
}

bool SealedStore::deleteKey(const std::string& key) { return store_->deleteKey(key); }

bool SealedStore::check(const std::vector<std::string>& keys) { return store_->check(keys); }

std::int64_t SealedStore::getNumKeys() { return store_->getNumKeys(); }

void SealedStore::wait(const std::vector<std::string>& keys) { store_->wait(keys); }

void SealedStore::wait(const std::vector<std::string>& keys,
                       const std::chrono::milliseconds& timeout) {
  store_->wait(keys, timeout);
}

const std::chrono::milliseconds& SealedStore::getTimeout() const noexcept {
  return store_->getTimeout();
}

void SealedStore::setTimeout(const std::chrono::milliseconds& timeout) {
  store_->setTimeout(timeout);
}

}  // namespace accrue::distributed
