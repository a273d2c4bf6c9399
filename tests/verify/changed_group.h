#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrue/distributed/group.h"
#include "verify/config/training_parts.h"

namespace accrue::proof::testing {

/// A group with a fault in what its rank sends or receives. Without one it behaves like its group.
class ChangedGroup final : public distributed::Group {
 public:
  /// Changes values in place. `what` is the purpose of the exchange; of all_gather() and
  /// all_to_all() it is empty.
  using Change = std::function<void(std::string_view what, const at::Tensor& values)>;
  struct Fault {
    Change sent = {};      ///< called with a copy, so that the rank's own values stay
    Change received = {};  ///< called with what arrived
  };

  ChangedGroup(std::shared_ptr<Group> sound, Fault fault)
      : sound_(std::move(sound)), fault_(std::move(fault)) {}

  std::int64_t rank() const override { return sound_->rank(); }
  std::int64_t world() const override { return sound_->world(); }
  at::Tensor all_to_all(const at::Tensor& rows) override {
    return received("", sound_->all_to_all(sent("", rows)));
  }
  at::Tensor all_gather(const at::Tensor& own) override {
    return received("", sound_->all_gather(sent("", own)));
  }
  std::unique_ptr<distributed::Work> start_sum(at::Tensor values, std::string_view what) override {
    if (fault_.sent) fault_.sent(what, values);
    return changed(sound_->start_sum(values, what), what, values, {});
  }
  std::unique_ptr<distributed::Work> start_all_to_all(at::Tensor rows, at::Tensor arriving,
                                                      std::string_view what) override {
    const at::Tensor changed_rows = sent(what, rows);
    return changed(sound_->start_all_to_all(changed_rows, arriving, what), what, arriving,
                   changed_rows);
  }
  std::unique_ptr<distributed::Work> start_send(at::Tensor values, std::int64_t to,
                                                std::string_view what) override {
    const at::Tensor changed_values = sent(what, values);
    return changed(sound_->start_send(changed_values, to, what), what, {}, changed_values);
  }
  std::unique_ptr<distributed::Work> start_receive(at::Tensor values, std::int64_t from,
                                                   std::string_view what) override {
    return changed(sound_->start_receive(values, from, what), what, values, {});
  }
  at::Tensor gather(const at::Tensor& own, std::int64_t root, std::string_view what) override {
    return sound_->gather(own, root, what);
  }
  void broadcast(at::Tensor values, std::int64_t root, std::string_view what) override {
    sound_->broadcast(std::move(values), root, what);
  }
  void barrier(std::string_view what) override { sound_->barrier(what); }
  std::vector<std::string> gather_texts(std::string_view topic, const std::string& mine) override {
    return sound_->gather_texts(topic, mine);
  }
  void announce(std::int64_t number) override { sound_->announce(number); }
  std::int64_t announced() override { return sound_->announced(); }
  void fail(const std::string& reason) noexcept override { sound_->fail(reason); }
  bool may_be_renewed() const override { return sound_->may_be_renewed(); }
  bool comes_late() const override { return sound_->comes_late(); }
  bool has_applicants() override { return sound_->has_applicants(); }
  bool has_lost_one() override { return sound_->has_lost_one(); }
  void settle() override { sound_->settle(); }
  distributed::FormerRanks renew(const KeepWaiting& keep_waiting) override {
    return sound_->renew(keep_waiting);
  }
  std::int64_t generation() const override { return sound_->generation(); }
  std::int64_t wire_bytes() const override { return sound_->wire_bytes(); }

 private:
  class ChangedWork final : public distributed::Work {
   public:
    ChangedWork(std::unique_ptr<Work> sound, std::function<void()> arrived, at::Tensor kept)
        : sound_(std::move(sound)), arrived_(std::move(arrived)), kept_(std::move(kept)) {}
    void wait() override {
      sound_->wait();
      if (const auto arrived = std::exchange(arrived_, nullptr)) arrived();
    }
    bool is_done() const override { return sound_->is_done(); }

   private:
    std::unique_ptr<Work> sound_;
    std::function<void()> arrived_;
    at::Tensor kept_;  ///< what is under way
  };

  at::Tensor sent(std::string_view what, const at::Tensor& values) const {
    if (!fault_.sent) return values;
    at::Tensor copy = values.clone();
    fault_.sent(what, copy);
    return copy;
  }
  at::Tensor received(std::string_view what, at::Tensor values) const {
    if (fault_.received) fault_.received(what, values);
    return values;
  }
  std::unique_ptr<distributed::Work> changed(std::unique_ptr<distributed::Work> sound,
                                             std::string_view what, const at::Tensor& arriving,
                                             at::Tensor kept) const {
    std::function<void()> arrived;
    if (fault_.received && arriving.defined())
      // What a group receives changes no version counter either.
      arrived = [change = fault_.received, what = std::string(what),
                 values = arriving.variable_data()] { change(what, values); };
    return std::make_unique<ChangedWork>(std::move(sound), std::move(arrived), std::move(kept));
  }

  std::shared_ptr<Group> sound_;
  Fault fault_;
};

/// Training's parts, except that what one rank sends or receives has a fault.
class ExchangesOfOneRank final : public TrainingParts {
 public:
  ExchangesOfOneRank(std::int64_t rank, ChangedGroup::Fault fault)
      : rank_(rank), fault_(std::move(fault)) {}

  std::shared_ptr<distributed::Group> group(
      std::shared_ptr<distributed::Group> joined) const override {
    if (joined->rank() != rank_) return joined;
    return std::make_shared<ChangedGroup>(std::move(joined), fault_);
  }

 private:
  std::int64_t rank_;
  ChangedGroup::Fault fault_;
};

}  // namespace accrue::proof::testing
