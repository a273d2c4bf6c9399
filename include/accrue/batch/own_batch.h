#pragma once

#include <memory>
#include <typeinfo>
#include <utility>

namespace accrue::batch {

/// Samples in a batch type of the program: made by its source, read by its loss function, and
/// passed through by all code in between. Copies share the batch.
class OwnBatch {
 public:
  /// Constructs an object without a batch.
  OwnBatch() = default;
  template <class Batch>
  static OwnBatch of(Batch batch) {
    return {std::make_shared<const Batch>(std::move(batch)), typeid(Batch)};
  }

  bool is_there() const { return batch_ != nullptr; }
  /// Returns the batch. Throws a usage Error that names both types if there is no batch, or one of
  /// another type.
  template <class Batch>
  const Batch& as() const {
    if (type_ == nullptr || *type_ != typeid(Batch)) refuse(typeid(Batch));
    return *static_cast<const Batch*>(batch_.get());
  }

 private:
  OwnBatch(std::shared_ptr<const void> batch, const std::type_info& type)
      : batch_(std::move(batch)), type_(&type) {}
  [[noreturn]] void refuse(const std::type_info& expected) const;

  std::shared_ptr<const void> batch_;
  const std::type_info* type_ = nullptr;
};

}  // namespace accrue::batch
