// RUN: pydisc opt %s --passes=fold-constants,mlir | filecheck %s

// CHECK-LABEL: func.func @main
// CHECK: %[[SUM:.*]] = stablehlo.constant dense<7> : tensor<i64>
// CHECK: return %[[SUM]]
func.func @main() -> tensor<i64> {
  %0 = stablehlo.constant dense<3> : tensor<i64>
  %1 = stablehlo.constant dense<4> : tensor<i64>
  %2 = stablehlo.add %0, %1 : tensor<i64>
  return %2 : tensor<i64>
}
