#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "data/text/json_sample.h"

namespace accrue::data {

/// Parsers for several threads, which are lent and used again: each remembers the words that it
/// made tokens of.
class JsonSampleParsers {
 public:
  /// As JsonSampleParser; holds the tokenizer.
  JsonSampleParsers(std::int64_t vocab_bound, std::shared_ptr<const Tokenizer> tokenizer)
      : vocab_bound_(vocab_bound), tokenizer_(std::move(tokenizer)) {}

  /// A parser for one thread, which goes back at the end.
  class Lent {
   public:
    Lent(JsonSampleParsers& owner, std::unique_ptr<JsonSampleParser> parser)
        : owner_(owner), parser_(std::move(parser)) {}
    ~Lent() { owner_.take_back(std::move(parser_)); }
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    JsonSampleParser& operator*() const { return *parser_; }
    JsonSampleParser* operator->() const { return parser_.get(); }

   private:
    JsonSampleParsers& owner_;
    std::unique_ptr<JsonSampleParser> parser_;
  };

  Lent lend() {
    const std::lock_guard lock(mutex_);
    if (free_.empty())
      return {*this, std::make_unique<JsonSampleParser>(vocab_bound_, tokenizer_.get())};
    std::unique_ptr<JsonSampleParser> parser = std::move(free_.back());
    free_.pop_back();
    return {*this, std::move(parser)};
  }

 private:
  void take_back(std::unique_ptr<JsonSampleParser> parser) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(parser));
  }

  std::int64_t vocab_bound_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<JsonSampleParser>> free_;
};

}  // namespace accrue::data
